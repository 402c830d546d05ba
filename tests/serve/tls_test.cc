// The same over TLS, with a certificate made on the spot.
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <filesystem>

#include "serve/scripted_server.h"

namespace nibble::serve {
namespace {

class Tls : public ScriptedServer {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "nibble-tls-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
    X509_sign(certificate, key, EVP_sha256());
    write("cert.pem", [&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
    write("key.pem",
          [&](BIO* bio) { return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
    X509_free(certificate);
    EVP_PKEY_free(key);
    ServerOptions options;
    options.http.tls_cert = (folder_ / "cert.pem").string();
    options.http.tls_key = (folder_ / "key.pem").string();
    open(options);
    context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_load_verify_locations(context, options.http.tls_cert.c_str(), nullptr);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  }
  void TearDown() override {
    SSL_CTX_free(context);
    ScriptedServer::TearDown();
    std::filesystem::remove_all(folder_);
  }
  template <class Put>
  void write(const char* name, Put put) {
    BIO* bio = BIO_new_file((folder_ / name).c_str(), "w");
    ASSERT_EQ(put(bio), 1);
    BIO_free(bio);
  }
  BIO* connect() {
    BIO* bio = BIO_new_ssl_connect(context);
    BIO_set_conn_hostname(bio, ("127.0.0.1:" + std::to_string(port())).c_str());
    EXPECT_EQ(BIO_do_connect(bio), 1);
    return bio;
  }
  static void send(BIO* bio, const std::string& text) {
    EXPECT_EQ(BIO_write(bio, text.data(), static_cast<int>(text.size())), static_cast<int>(text.size()));
  }
  // Until `text` has come, or the end.
  static bool wait_for(BIO* bio, const std::string& text, std::string& seen) {
    char bytes[4096];
    while (seen.find(text) == seen.npos) {
      const int got = BIO_read(bio, bytes, sizeof(bytes));
      if (got <= 0) return false;
      seen.append(bytes, static_cast<size_t>(got));
    }
    return true;
  }
  SSL_CTX* context = nullptr;

 private:
  std::filesystem::path folder_;
};

TEST_P(Tls, AnswersStreamsAndSeesWhoGoes) {
  EXPECT_TRUE(server_->url().starts_with("https://"));
  BIO* bio = connect();
  std::string seen;
  send(bio, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(wait_for(bio, R"({"status":"ok"})", seen));
  const std::string body = chat(R"("stream":true)");
  send(bio, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
                "\r\n\r\n" + body);
  const Engine::Id id = generator_.wait_for_request(1);
  generator_.give(id, ids("<|close|>think<|sep|><|open|>response<|sep|>Z"));
  EXPECT_TRUE(wait_for(bio, R"("content":"Z")", seen));
  BIO_free_all(bio);
  generator_.wait_for_cancel(id);
}

TEST_P(Tls, PlainBytesAndOldVersionsAreTurnedAway) {
  Client plain(port());
  plain.get("/health");
  EXPECT_TRUE(plain.closed());
  SSL_CTX_set_max_proto_version(context, TLS1_1_VERSION);
  BIO* bio = BIO_new_ssl_connect(context);
  BIO_set_conn_hostname(bio, ("127.0.0.1:" + std::to_string(port())).c_str());
  EXPECT_LE(BIO_do_connect(bio), 0);
  BIO_free_all(bio);
}

NIBBLE_ON_ONE_AND_THREE_THREADS(Tls);

}  // namespace
}  // namespace nibble::serve
