// A client of few words: raw bytes out, answers and server-sent events in. Reads wait for at most a minute.
#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace nibble::serve {

using TestJson = nlohmann::ordered_json;

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  TestJson json() const { return TestJson::parse(body); }
};

class Client {
 public:
  explicit Client(uint16_t port, int receive_buffer = 0);  // receive_buffer: small, to be a slow reader
  ~Client();
  Client(Client&& other) noexcept;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes);
  void post(const std::string& path, const std::string& body, const std::string& more_headers = "");
  void get(const std::string& path, const std::string& more_headers = "");

  Answer answer(bool head_only = false);  // the next whole answer
  Answer head();                          // of a stream
  std::optional<std::string> event();     // the next of a stream: after "data: ", or a comment with its colon
  std::string rest();                     // to the end of the connection
  bool closed();                          // waits until the server has closed
  void send_end();                        // says that nothing more will be sent
  void shut();                            // goes, at once and without a word
  bool connected() const { return fd_ >= 0; }

 private:
  bool fill();
  std::string line();
  std::string exactly(size_t size);
  Answer read_head();

  int fd_ = -1;
  std::string buffer_, stream_;
  bool chunked_ = false, ended_ = false;
};

Answer post(uint16_t port, const std::string& path, const std::string& body, const std::string& more_headers = "");
Answer get(uint16_t port, const std::string& path, const std::string& more_headers = "");

// All events of a chat stream, put together again.
struct Gathered {
  std::string role, reasoning, content, finish_reason, error;
  struct Call {
    std::string id, name, arguments;
    int fragments = 0;
  };
  std::map<int, Call> calls;
  TestJson usage, logprobs = TestJson::array();
  int events = 0;
  bool done = false;
};
Gathered gather(Client& client, int choice = 0);

}  // namespace nibble::serve
