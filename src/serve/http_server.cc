#include "serve/http_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <signal.h>
#include <sys/resource.h>

#include <list>

#include "base/error.h"
#include "serve/http_session.h"

namespace nibble::serve {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using Error = boost::system::error_code;

constexpr auto kSweep = std::chrono::milliseconds(200);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // when there are no descriptors left
constexpr int kWorkers = 2;

Tcp::endpoint resolve(asio::io_context& context, const HttpOptions& options) {
  Error error;
  const asio::ip::address address = asio::ip::make_address(options.host, error);
  if (!error) return {address, options.port};
  const auto found = Tcp::resolver(context).resolve(options.host, std::to_string(options.port), error);
  if (!error && !found.empty()) return *found.begin();
  throw Refusal({.what = "--host " + options.host,
                 .seen = error.message(),
                 .rule = "an address or a name of this machine",
                 .fix = "--host 127.0.0.1, or --host 0.0.0.0 for all of its addresses"});
}

void load_certificate(asio::ssl::context& context, const HttpOptions& options) {
  Error error;
  const auto check = [&](const char* flag, const std::string& file) {
    if (!error) return;
    throw Refusal({.what = std::string(flag) + " " + file,
                   .seen = error.message(),
                   .rule = "PEM files: a certificate with its chain, and the private key that belongs to it",
                   .fix = "check both files"});
  };
  context.use_certificate_chain_file(options.tls_cert, error);
  check("--tls-cert", options.tls_cert);
  context.use_private_key_file(options.tls_key, asio::ssl::context::pem, error);
  check("--tls-key", options.tls_key);
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
}

// A descriptor a connection: the soft limit of a shell is often 1,024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

struct HttpServer::Impl {
  Impl(const HttpOptions& o, HttpHandler& handler)
      : options(o), host{options, handler, {}, false}, acceptor(context), sweeper(context), pause(context) {
    if (options.tls_cert.empty() != options.tls_key.empty()) {
      throw Refusal({.what = options.tls_cert.empty() ? "--tls-key" : "--tls-cert",
                     .seen = "one without the other",
                     .rule = "TLS takes a certificate and its key",
                     .fix = "give both --tls-cert and --tls-key, or neither"});
    }
    if (!options.tls_cert.empty()) load_certificate(tls.emplace(asio::ssl::context::tls_server), options);
    const Tcp::endpoint endpoint = resolve(context, options);
    Error error;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      throw Refusal({.what = "--host " + options.host + " --port " + std::to_string(options.port),
                     .seen = error.message(),
                     .rule = "the server listens on an address of this machine and a port that nobody else has",
                     .fix = "another --port; --port 0 takes one that is free"});
    }
    raise_descriptor_limit();
    port = acceptor.local_endpoint().port();
    loopback = acceptor.local_endpoint().address().is_loopback();
  }

  void accept() {
    acceptor.async_accept([this](Error error, Tcp::socket socket) {
      if (!acceptor.is_open()) return;
      if (error) {
        pause.expires_after(kAcceptPause);
        return pause.async_wait([this](Error stopped) { stopped ? void() : accept(); });
      }
      if (static_cast<int64_t>(host.connections.size()) < options.max_connections) {
        tls ? serve_tls(std::move(socket), *tls, host) : serve_plain(std::move(socket), host);
      }
      accept();
    });
  }

  // Ends what takes too long; stops by itself once the last connection of a closed server is gone.
  void sweep() {
    sweeper.expires_after(kSweep);
    sweeper.async_wait([this](Error stopped) {
      if (stopped) return;
      const auto now = Clock::now();
      for_each_connection([now](Connection& connection) { connection.sweep(now); });
      if (host.closing && (host.connections.empty() || now > last_moment)) return context.stop();
      sweep();
    });
  }

  // Also where what is done to one ends others.
  template <class Call>
  void for_each_connection(Call call) {
    const std::vector<Connection*> all(host.connections.begin(), host.connections.end());
    for (Connection* connection : all) {
      if (host.connections.count(connection) > 0) call(*connection);
    }
  }

  struct Repeated {
    asio::steady_timer timer;
    std::chrono::milliseconds interval;
    std::function<void()> task;
    void wait() {
      timer.expires_after(interval);
      timer.async_wait([this](Error stopped) {
        if (stopped) return;
        task();
        wait();
      });
    }
  };

  void wait_for_signal() {
    signals->async_wait([this](Error stopped, int) {
      if (stopped) return;
      on_signal();
      wait_for_signal();
    });
  }

  HttpOptions options;
  Host host;
  asio::io_context context{1};
  Tcp::acceptor acceptor;
  asio::steady_timer sweeper, pause;
  std::optional<asio::ssl::context> tls;
  uint16_t port = 0;
  bool loopback = false;
  Clock::time_point last_moment;
  std::list<Repeated> repeated;
  std::optional<asio::signal_set> signals;
  std::function<void()> on_signal;
  asio::thread_pool workers{kWorkers};
};

HttpServer::HttpServer(const HttpOptions& options, HttpHandler& handler)
    : impl_(std::make_unique<Impl>(options, handler)) {}
HttpServer::~HttpServer() {
  impl_->workers.join();
  impl_->for_each_connection(
      [](Connection& connection) { connection.abort(); });  // what they hold of us goes before us
}

uint16_t HttpServer::port() const { return impl_->port; }
bool HttpServer::loopback() const { return impl_->loopback; }
int64_t HttpServer::connections() const { return static_cast<int64_t>(impl_->host.connections.size()); }

void HttpServer::run() {
  impl_->accept();
  impl_->sweep();
  for (Impl::Repeated& r : impl_->repeated) r.wait();
  impl_->context.run();
  impl_->workers.join();  // what they still do is for nobody, but may look at what our owner has
}

void HttpServer::post(std::function<void()> task) { asio::post(impl_->context, std::move(task)); }
void HttpServer::background(std::function<void()> task) { asio::post(impl_->workers, std::move(task)); }

void HttpServer::every(std::chrono::milliseconds interval, std::function<void()> task) {
  impl_->repeated.push_back({asio::steady_timer(impl_->context), interval, std::move(task)});
}

void HttpServer::on_signal(std::function<void()> task) {
  impl_->on_signal = std::move(task);
  impl_->signals.emplace(impl_->context, SIGTERM, SIGINT);
  impl_->wait_for_signal();
}

void HttpServer::close(std::chrono::milliseconds patience) {
  if (impl_->host.closing) return;
  impl_->host.closing = true;
  impl_->last_moment = Clock::now() + patience;
  Error ignored;
  impl_->acceptor.close(ignored);
  impl_->for_each_connection([](Connection& connection) { connection.shut(); });
}

}  // namespace nibble::serve
