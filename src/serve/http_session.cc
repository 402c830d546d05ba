// One connection: requests are read one after the other by Beast's parser, answers written by hand.
//
// While an answer is in the making one read stays pending, so that a client that goes is noticed at once; what it reads
// belongs to the next request. Writes go out in order from two buffers: one on its way, one that gathers.
#include "serve/http_session.h"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fmt/format.h>

#include <iterator>
#include <type_traits>

namespace nibble::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Socket = asio::ip::tcp::socket;
using TlsStream = asio::ssl::stream<Socket>;
using Error = boost::system::error_code;

constexpr auto kLingerTime = std::chrono::seconds(2);  // for a client that still sends what nobody wants
constexpr size_t kReadSize = 16 << 10;

std::string lower_case(boost::beast::string_view text) {
  std::string out(text.data(), text.size());
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

template <class Stream>
class Session final : public Connection, public std::enable_shared_from_this<Session<Stream>> {
  class Reply;

 public:
  Session(Stream stream, Host& host) : stream_(std::move(stream)), host_(host) {
    host_.connections.insert(this);
    // What waits to be parsed: a part of the head, an extension of a chunk, or all fields behind the last one.
    buffer_.max_size(static_cast<size_t>(host_.options.max_head) + kReadSize);
    Error ignored;
    socket().set_option(asio::ip::tcp::no_delay(true), ignored);
    socket().non_blocking(true, ignored);  // for write_gathered()
    const auto peer = socket().remote_endpoint(ignored);
    client_ = ignored ? "?" : fmt::format("{}:{}", peer.address().to_string(), peer.port());
  }
  ~Session() override {
    host_.connections.erase(this);
    --host_.open;
  }

  void start() {
    deadline_ = Clock::now() + host_.options.head_timeout;
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      stream_.async_handshake(asio::ssl::stream_base::server, [self = this->shared_from_this()](Error error) {
        error ? self->close() : self->read_head();
      });
    } else {
      read_head();
    }
  }

  void sweep(Clock::time_point now) override {
    const auto alive = this->shared_from_this();
    if (writing_ && now > write_deadline_) return gone("nothing read for too long");
    if (now <= deadline_) return;
    if (phase_ == Phase::kHead && buffer_.size() == 0) return close();
    if (phase_ == Phase::kHead || phase_ == Phase::kBody) {
      timed_out_ = true;
      Error ignored;
      socket().cancel(ignored);  // the read ends, and says so
    } else if (phase_ != Phase::kAnswer) {
      close();
    }
  }

  void shut() override {
    const auto alive = this->shared_from_this();
    keep_alive_ = false;
    if (phase_ == Phase::kIdle || (phase_ == Phase::kHead && buffer_.size() == 0)) close();
  }

  void abort() override {
    const auto alive = this->shared_from_this();
    close();
  }

 private:
  enum class Phase { kHead, kBody, kAnswer, kIdle, kLinger, kClosed };

  Socket& socket() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  void read_head() {
    phase_ = Phase::kHead;
    deadline_ = Clock::now() + host_.options.head_timeout;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(host_.options.max_head));
    parser_->body_limit(static_cast<uint64_t>(host_.options.max_body));
    head_size_ = 0;
    read_more_of_head();
  }

  // Beast's limit is on what it reads at once: fields that come one by one would never reach it.
  void read_more_of_head() {
    http::async_read_some(stream_, buffer_, *parser_, [self = this->shared_from_this()](Error error, size_t size) {
      self->head_size_ += static_cast<int64_t>(size);
      if (!error && self->head_size_ > self->host_.options.max_head) error = http::error::header_limit;
      error || self->parser_->is_header_done() ? self->head_arrived(error) : self->read_more_of_head();
    });
  }

  // True where the read failed, and that has been dealt with.
  bool failed(const Error& error) {
    if (phase_ == Phase::kClosed) return true;
    if (timed_out_) return refuse(408, "the request did not arrive in time"), true;
    if (!error) return false;
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      return refuse(431, "the head of the request is too long"), true;
    if (error == http::error::body_limit) {
      return refuse(413, fmt::format("the body is longer than {} bytes (--max-body)", host_.options.max_body)), true;
    }
    const bool unreadable = error.category() == http::make_error_code(http::error::bad_method).category() &&
                            error != http::error::end_of_stream && error != http::error::partial_message;
    unreadable ? refuse(400, "not HTTP/1.1: " + error.message()) : close();
    return true;
  }

  void head_arrived(const Error& error) {
    if (failed(error)) return;
    const auto& message = parser_->get();
    http_1_0_ = message.version() < 11;
    keep_alive_ = message.keep_alive() && !host_.closing;
    request_ = {};
    request_.method = std::string(message.method_string());
    head_only_ = request_.method == "HEAD";
    const std::string target(message.target());
    request_.path = target.substr(0, target.find('?'));
    request_.client = client_;
    for (const auto& field : message) request_.headers.emplace_back(lower_case(field.name_string()), field.value());
    if (std::optional<HttpResponse> refusal = host_.handler->check(request_)) {
      if (!parser_->is_done()) keep_alive_ = false;  // its body is not read
      return answer(std::move(*refusal));
    }
    if (parser_->is_done()) return handle();
    if (lower_case(message[http::field::expect]) == "100-continue") write("HTTP/1.1 100 Continue\r\n\r\n");
    phase_ = Phase::kBody;
    deadline_ = Clock::now() + host_.options.body_timeout;
    http::async_read(stream_, buffer_, *parser_, [self = this->shared_from_this()](Error failure, size_t) {
      if (self->failed(failure)) return;
      self->request_.body = std::move(self->parser_->get().body());
      self->handle();
    });
  }

  void handle() {
    phase_ = Phase::kAnswer;
    parser_.reset();
    current_ = std::make_shared<Reply>(this->shared_from_this());
    host_.handler->handle(std::move(request_), current_);
    if (current_) watch();
  }

  // The read that notices a client that goes.
  void watch() {
    if (watching_ || buffer_.size() > 0) return;
    watching_ = true;
    stream_.async_read_some(buffer_.prepare(kReadSize), [self = this->shared_from_this()](Error error, size_t size) {
      self->watching_ = false;
      if (self->phase_ == Phase::kClosed) return;
      if (error) return self->phase_ == Phase::kAnswer && !self->answered_ ? self->gone("disconnected") : self->close();
      if (self->phase_ == Phase::kLinger) return self->watch();  // discarded
      self->buffer_.commit(size);
      if (self->phase_ == Phase::kIdle) self->read_head();
    });
  }

  void refuse(int status, std::string_view message) {
    keep_alive_ = false;
    answer(host_.handler->malformed(status, message, client_));
  }

  void answer(HttpResponse response) {
    phase_ = Phase::kAnswer;
    const auto reply = current_ = std::make_shared<Reply>(this->shared_from_this());
    reply->send(std::move(response));
  }

  void write(std::string_view bytes) {
    gathering_ += bytes;
    if (!writing_) write_gathered();
  }

  void write_chunk(std::string_view bytes) {
    fmt::format_to(std::back_inserter(gathering_), "{:x}\r\n", bytes.size());
    gathering_ += bytes;
    write("\r\n");
  }

  void write_gathered() {
    sending_.clear();
    sending_.swap(gathering_);
    sent_ = 0;
    if constexpr (!std::is_same_v<Stream, TlsStream>) {
      // Nearly always the socket takes all of it at once, and no turn of the event loop is needed to say so. Whatever
      // else is wrong comes up again below.
      Error error;
      sent_ = stream_.write_some(asio::buffer(sending_), error);
      if (sent_ == sending_.size()) return answered_ ? answer_is_out() : void();
    }
    writing_ = true;
    write_some();
  }

  void write_some() {
    write_deadline_ = Clock::now() + host_.options.write_timeout;
    stream_.async_write_some(asio::buffer(sending_.data() + sent_, sending_.size() - sent_),
                             [self = this->shared_from_this()](Error error, size_t size) {
                               if (self->phase_ == Phase::kClosed) return;
                               if (error) return self->gone("disconnected");
                               self->sent_ += size;
                               if (self->sent_ < self->sending_.size()) return self->write_some();
                               self->writing_ = false;
                               if (!self->gathering_.empty()) return self->write_gathered();
                               if (self->answered_) self->answer_is_out();
                             });
  }

  int64_t unsent() const { return static_cast<int64_t>(sending_.size() - sent_ + gathering_.size()); }

  void answer_is_out() {
    answered_ = false;
    if (!keep_alive_ || host_.closing) return linger();
    phase_ = Phase::kIdle;
    deadline_ = Clock::now() + host_.options.idle_timeout;
    if (buffer_.size() > 0) return read_head();
    watch();
  }

  // A socket that is closed while bytes are unread is reset, and the client may never see its answer.
  void linger() {
    phase_ = Phase::kLinger;
    deadline_ = Clock::now() + kLingerTime;
    Error ignored;
    socket().shutdown(Socket::shutdown_send, ignored);
    buffer_.clear();
    watch();
  }

  void gone(std::string_view why) {
    const std::shared_ptr<Reply> reply = std::exchange(current_, nullptr);
    close();
    if (reply) reply->tell_gone(why);
  }

  void close() {
    phase_ = Phase::kClosed;
    Error ignored;
    socket().close(ignored);
    if (current_) std::exchange(current_, nullptr)->tell_gone("closed");
  }

  // What the handler holds. It and the session hold each other until the answer is complete or the client gone.
  class Reply final : public HttpReply {
   public:
    explicit Reply(std::shared_ptr<Session> session) : session_(std::move(session)) {}

    void send(HttpResponse response) override {
      if (!session_) return;
      std::string bytes =
          response_head(response.status, response.content_type, response.headers,
                        static_cast<int64_t>(response.body.size()), session_->keep_alive_, session_->http_1_0_);
      if (!session_->head_only_) bytes += response.body;
      complete(bytes);
    }

    void begin(int status, std::string content_type, Headers headers) override {
      if (!session_) return;
      if (session_->http_1_0_) session_->keep_alive_ = false;  // the end of the body is the end of the connection
      session_->write(response_head(status, content_type, headers, -1, session_->keep_alive_, session_->http_1_0_));
    }

    void write(std::string_view bytes) override {
      if (!session_ || bytes.empty()) return;
      if (session_->unsent() > session_->host_.options.max_unsent) {
        const std::shared_ptr<Session> session = session_;
        return session->gone("read too slowly");
      }
      session_->http_1_0_ ? session_->write(bytes) : session_->write_chunk(bytes);
    }

    void end() override {
      if (session_) complete(session_->http_1_0_ ? "" : "0\r\n\r\n");
    }

    void on_gone(std::function<void(std::string_view)> callback) override {
      if (!session_) return callback("disconnected");
      on_gone_ = std::move(callback);
    }

    void tell_gone(std::string_view why) {
      session_.reset();
      if (on_gone_) std::exchange(on_gone_, nullptr)(why);
    }

   private:
    void complete(std::string_view bytes) {
      const std::shared_ptr<Session> session = std::exchange(session_, nullptr);
      on_gone_ = nullptr;
      session->current_.reset();
      session->answered_ = true;
      if (bytes.empty() && !session->writing_) return session->answer_is_out();
      session->write(bytes);
    }

    std::shared_ptr<Session> session_;
    std::function<void(std::string_view)> on_gone_;
  };

  Stream stream_;
  Host& host_;
  std::string client_;
  Phase phase_ = Phase::kHead;
  Clock::time_point deadline_, write_deadline_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  int64_t head_size_ = 0;  // bytes, so far
  HttpRequest request_;
  bool http_1_0_ = false, keep_alive_ = false, head_only_ = false;
  bool timed_out_ = false, watching_ = false;
  std::shared_ptr<Reply> current_;
  bool answered_ = false;  // all of the answer is in the buffers below
  std::string sending_, gathering_;
  size_t sent_ = 0;
  bool writing_ = false;
};

}  // namespace

void serve_plain(Socket socket, Host& host) { std::make_shared<Session<Socket>>(std::move(socket), host)->start(); }

void serve_tls(Socket socket, asio::ssl::context& context, Host& host) {
  std::make_shared<Session<TlsStream>>(TlsStream(std::move(socket), context), host)->start();
}

}  // namespace nibble::serve
