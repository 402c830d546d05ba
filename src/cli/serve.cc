// `nibble serve`: the API over HTTP.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <exception>
#include <thread>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/prompt.h"
#include "cli/sampling.h"
#include "cli/terminal.h"
#include "nibble/engine.h"
#include "serve/server.h"
#include "text/tokenizer.h"

namespace nibble::cli {
namespace {

struct Options {
  ModelOptions model;
  ChatOptions chat;
  serve::ServerOptions server;
  std::string key_file;
  int64_t step_tokens = 256;
  std::string suspend_directory;
  bool quiet = false;
};

// What is loaded while the server already answers that it is loading.
struct Model {
  std::unique_ptr<serve::EngineGenerator> generator;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::exception_ptr failure;
};

void add_keys(std::vector<std::string>& keys, const std::string& file) {
  if (file.empty()) return;
  const std::string text = read_file("--api-key-file", file);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) keys.push_back(std::move(line));
    at = end + 1;
  }
  if (keys.empty()) {
    throw Refusal({.what = "--api-key-file " + file,
                   .seen = "no key",
                   .rule = "a file of keys has one a line",
                   .fix = "write one, or leave the flag out"});
  }
}

std::string default_name(const std::filesystem::path& model) {
  const std::filesystem::path name = (model / "").parent_path().filename();
  return name.empty() || name == "." || name == ".." ? "kimi-k3" : name.string();
}

void log_line(const std::string& line) {
  const std::string whole = line + "\n";
  std::fwrite(whole.data(), 1, whole.size(), stderr);  // at once: stderr has no buffer
}

void serve_model(Options& o) {
  EngineOptions engine = engine_options(o.model);
  serve::ServiceOptions& service = o.server.service;
  add_keys(service.api_keys, o.key_file);
  service.render = render_options(o.chat, engine.model);
  if (service.model_names.empty()) service.model_names.push_back(default_name(engine.model));
  engine.max_sequences = service.max_sequences;
  engine.step_tokens = o.step_tokens;
  engine.suspend_directory = o.suspend_directory;
  o.server.signals = true;

  Model model;  // destroyed after the server has ended: nobody calls it any more
  serve::Server server(o.server, o.quiet ? serve::Service::Log() : log_line);
  if (!server.loopback() && service.api_keys.empty()) {
    fmt::print(stderr, "nibble: {} can be reached from other machines, and no --api-key is asked for\n", server.url());
  }
  std::thread loader([&] {
    try {
      model.generator = std::make_unique<serve::EngineGenerator>(engine);
      const Engine& loaded = model.generator->engine();
      model.tokenizer = std::make_unique<text::Tokenizer>(text::Tokenizer::load(engine.model, loaded.vocabulary()));
      server.open(*model.generator, *model.tokenizer, loaded.context());
      print(fmt::format("serving {} on {} ({}, {} tokens of context, {} sequences at once)\n",
                        service.model_names.front(), server.url(), loaded.device(), loaded.context(),
                        engine.max_sequences));
      flush_output();
    } catch (...) {
      model.failure = std::current_exception();
      server.stop();
    }
  });
  server.run();
  loader.join();
  if (model.failure) std::rethrow_exception(model.failure);
}

void add_counts(CLI::App& command, const std::shared_ptr<Options>& o) {
  const auto count = [&](const char* names, const char* flag, int64_t& to, int64_t low, int64_t high,
                         const char* what) {
    command
        .add_option_function<std::string>(
            names,
            [=, &to](const std::string& text) {
              to = parse_count(flag, text);
              if (to >= low && to <= high) return;
              throw Refusal({.what = fmt::format("{} {}", flag, text),
                             .seen = text,
                             .rule = fmt::format("from {} to {}", low, high),
                             .fix = "a number in that range, or leave it out"});
            },
            what)
        ->type_name("N");
  };
  serve::ServerOptions& s = o->server;
  count("--max-num-seqs,--parallel", "--max-num-seqs", s.service.max_sequences, 1, 4096,
        "Sequences that take part in steps at once (default 16)");
  count("--max-num-batched-tokens,--batch-size,-b", "--max-num-batched-tokens", o->step_tokens, 1, 65536,
        "Rows a step may have (default 256)");
  count("--max-queue", "--max-queue", s.service.max_waiting, 0, 1'000'000,
        "Sequences that may wait; beyond that 429 (default 1,024)");
  count("--http-threads", "--http-threads", s.http.threads, 1, 64,
        "Threads that have connections (default: one for each four processors, 1 to 4)");
  count("--max-connections", "--max-connections", s.http.max_connections, 1, 1'000'000,
        "Connections; beyond that they are closed (default 4,096)");
  const auto bytes = [&](const char* flag, int64_t& to, const char* what) {
    command
        .add_option_function<std::string>(
            flag, [=, &to](const std::string& text) { to = parse_bytes(flag, text); }, what)
        ->type_name("BYTES");
  };
  bytes("--max-body", s.http.max_body, "Bytes of a request (default 64M)");
  bytes("--stream-buffer", s.http.max_unsent, "Bytes that may wait for a slow reader of a stream (default 1M)");
  const auto seconds = [&](const char* flag, std::chrono::milliseconds& to, const char* what) {
    command
        .add_option_function<std::string>(
            flag,
            [=, &to](const std::string& text) {
              to = std::chrono::milliseconds(static_cast<int64_t>(1000 * parse_real(flag, text, {0, 1e6})));
            },
            what)
        ->type_name("SECONDS");
  };
  seconds("--request-timeout", s.service.request_timeout, "Time a request may take; 0: any (default)");
  seconds("--drain-timeout", s.drain_timeout, "Time for answers in progress when it is to end (default 30)");
  seconds("--keep-alive-interval", s.service.keep_alive, "Silence after which a stream gets a comment (default 10)");
}

}  // namespace

void add_serve(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve", "Answer over HTTP, in the form of OpenAI's API");
  const auto o = std::make_shared<Options>();
  add_model_options(*command, o->model, "bf16");
  serve::ServerOptions& s = o->server;
  s.http.threads = serve::default_http_threads(std::thread::hardware_concurrency());
  command->add_option("--host", s.http.host, "Address to listen on")->capture_default_str();
  command->add_option("--port", s.http.port, "Port; 0: one that is free")->capture_default_str();
  command->add_option("--api-key", s.service.api_keys, "Key that callers must send; may be repeated")
      ->type_name("KEY")
      ->envname("NIBBLE_API_KEY")
      ->allow_extra_args(false);
  command->add_option("--api-key-file", o->key_file, "File with keys, one a line")->type_name("FILE");
  command->add_option("--tls-cert,--ssl-certfile,--ssl-cert-file", s.http.tls_cert, "Certificate and chain, PEM")
      ->type_name("FILE");
  command->add_option("--tls-key,--ssl-keyfile,--ssl-key-file", s.http.tls_key, "Private key, PEM")->type_name("FILE");
  command
      ->add_option("--served-model-name,--alias,-a", s.service.model_names,
                   "Name in requests and answers (default: the directory's); may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command->add_option("--cors-origin", s.service.cors_origin, "Origin whose pages may call, or * (default: none)");
  command->add_flag("--metrics-open", s.service.metrics_open, "/metrics takes no key");
  command->add_flag("--no-access-log", o->quiet, "No line on stderr for each request");
  add_counts(*command, o);
  add_suspend_option(*command, o->suspend_directory);
  add_chat_options(*command, o->chat);
  add_max_tokens_option(*command, s.service.max_tokens, "Most tokens of an answer that names no limit");
  add_sampling_options(*command, s.service.sampling);
  command->callback([o] { serve_model(*o); });
}

}  // namespace nibble::cli
