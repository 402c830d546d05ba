#include "serve/http_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <list>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "serve/http_session.h"

namespace nibble::serve {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using Error = boost::system::error_code;

constexpr auto kSweep = std::chrono::milliseconds(200), kLastSweeps = std::chrono::milliseconds(10);  // once it ends
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

// A thread's share: its connections, and what ends them when they take too long.
struct Loop {
  explicit Loop(const HttpOptions& options) : host{.options = options}, sweeper(context) {}

  // Stops by itself once the last connection of a closed server is gone.
  void sweep() {
    sweeper.expires_after(host.closing ? kLastSweeps : kSweep);
    sweeper.async_wait([this](Error stopped) {
      if (stopped) return;
      const auto now = Clock::now();
      for_each_connection([now](Connection& connection) { connection.sweep(now); });
      if (host.closing && (host.open == 0 || now > last_moment)) return context.stop();
      sweep();
    });
  }

  void close(Clock::time_point last) {
    host.closing = true;
    last_moment = last;
    for_each_connection([](Connection& connection) { connection.shut(); });
    sweep();  // instead of the one that waits
  }

  // Also where what is done to one ends others.
  template <class Call>
  void for_each_connection(Call call) {
    const std::vector<Connection*> all(host.connections.begin(), host.connections.end());
    for (Connection* connection : all) {
      if (host.connections.count(connection) > 0) call(*connection);
    }
  }

  Host host;
  asio::io_context context{1};
  asio::steady_timer sweeper;
  Clock::time_point last_moment;
};

std::vector<std::unique_ptr<Loop>> make_loops(const HttpOptions& options) {
  std::vector<std::unique_ptr<Loop>> loops;
  for (int64_t i = 0; i < options.threads; ++i) loops.push_back(std::make_unique<Loop>(options));
  return loops;
}

}  // namespace

int64_t default_http_threads(int64_t processors) { return std::clamp<int64_t>(processors / 4, 1, 4); }

struct HttpServer::Impl {
  explicit Impl(const HttpOptions& o) : options(o), loops(make_loops(options)) {
    if (options.tls_cert.empty() != options.tls_key.empty()) {
      throw Refusal({.what = options.tls_cert.empty() ? "--tls-key" : "--tls-cert",
                     .seen = "one without the other",
                     .rule = "TLS takes a certificate and its key",
                     .fix = "give both --tls-cert and --tls-key, or neither"});
    }
    if (!options.tls_cert.empty()) load_certificate(tls.emplace(asio::ssl::context::tls_server), options);
    const Tcp::endpoint endpoint = resolve(first(), options);
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

  asio::io_context& first() { return loops.front()->context; }

  int64_t connections() const {
    int64_t sum = 0;
    for (const auto& loop : loops) sum += loop->host.open;
    return sum;
  }

  void accept() {
    Loop& loop = **std::min_element(loops.begin(), loops.end(),
                                    [](const auto& a, const auto& b) { return a->host.open < b->host.open; });
    acceptor.async_accept(loop.context, [this, &loop](Error error, Tcp::socket socket) {
      if (!acceptor.is_open()) return;
      if (error) {
        pause.expires_after(kAcceptPause);
        return pause.async_wait([this](Error stopped) { stopped ? void() : accept(); });
      }
      if (connections() < options.max_connections) {
        ++loop.host.open;
        asio::post(loop.context, [this, &loop, socket = std::move(socket)]() mutable {
          tls ? serve_tls(std::move(socket), *tls, loop.host) : serve_plain(std::move(socket), loop.host);
        });
      }
      accept();
    });
  }

  // The first failure of a thread ends all of them.
  void run(Loop& loop) {
    try {
      loop.context.run();
    } catch (...) {
      const std::lock_guard lock(failing);
      if (!failure) failure = std::current_exception();
      for (const auto& each : loops) each->context.stop();
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
  std::vector<std::unique_ptr<Loop>> loops;  // at least one
  Tcp::acceptor acceptor{first()};
  asio::steady_timer pause{first()};
  std::optional<asio::ssl::context> tls;
  uint16_t port = 0;
  bool loopback = false;
  std::list<Repeated> repeated;
  std::optional<asio::signal_set> signals;
  std::function<void()> on_signal;
  std::mutex failing;
  std::exception_ptr failure;
  asio::thread_pool workers{kWorkers};
};

HttpServer::HttpServer(const HttpOptions& options) : impl_(std::make_unique<Impl>(options)) {}
HttpServer::~HttpServer() {
  impl_->workers.join();
  for (const auto& loop : impl_->loops) {
    loop->for_each_connection(
        [](Connection& connection) { connection.abort(); });  // what they hold of us goes before us
  }
}

uint16_t HttpServer::port() const { return impl_->port; }
bool HttpServer::loopback() const { return impl_->loopback; }
int64_t HttpServer::connections() const { return impl_->connections(); }

void HttpServer::run(const std::vector<HttpHandler*>& handlers) {
  for (size_t i = 0; i < impl_->loops.size(); ++i) {
    impl_->loops[i]->host.handler = handlers.at(i);
    impl_->loops[i]->sweep();
  }
  impl_->accept();
  for (Impl::Repeated& r : impl_->repeated) r.wait();
  std::vector<std::thread> threads;
  for (size_t i = 1; i < impl_->loops.size(); ++i) threads.emplace_back([this, i] { impl_->run(*impl_->loops[i]); });
  impl_->run(*impl_->loops.front());
  for (std::thread& thread : threads) thread.join();
  impl_->workers.join();  // what they still do is for nobody, but may look at what our owner has
  if (impl_->failure) std::rethrow_exception(impl_->failure);
}

void HttpServer::post(size_t thread, std::function<void()> task) {
  asio::post(impl_->loops.at(thread)->context, std::move(task));
}
void HttpServer::background(std::function<void()> task) { asio::post(impl_->workers, std::move(task)); }

void HttpServer::every(std::chrono::milliseconds interval, std::function<void()> task) {
  impl_->repeated.push_back({asio::steady_timer(impl_->first()), interval, std::move(task)});
}

void HttpServer::on_signal(std::function<void()> task) {
  impl_->on_signal = std::move(task);
  impl_->signals.emplace(impl_->first(), SIGTERM, SIGINT);
  impl_->wait_for_signal();
}

void HttpServer::close(std::chrono::milliseconds patience) {
  post(0, [this, patience] {
    if (!impl_->acceptor.is_open()) return;
    Error ignored;
    impl_->acceptor.close(ignored);
    // Behind the sockets that have been handed over.
    const auto last = Clock::now() + patience;
    for (const auto& loop : impl_->loops) asio::post(loop->context, [&loop = *loop, last] { loop.close(last); });
  });
}

}  // namespace nibble::serve
