#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strand::bench {

// A connection to a peer on the loopback, for protocols that are spoken by hand: what is written
// goes out at once (TCP_NODELAY), what is read comes through a buffer. Trouble, and an answer that
// takes longer than a minute, end the benchmark with a message.
//
// Threads: one at a time.
class PeerSocket {
 public:
  PeerSocket(std::string peer, int port);
  ~PeerSocket();
  PeerSocket(const PeerSocket&) = delete;
  PeerSocket& operator=(const PeerSocket&) = delete;

  void write(std::string_view bytes);
  // The next so many bytes; valid until the next call.
  std::string_view read(std::size_t count);
  // The next line, without its CR LF; valid until the next call.
  std::string_view read_line();
  // Whether something can be read, after waiting so long for it.
  bool readable(int wait_ms);
  // Whether so many bytes have already come: read() would not wait.
  [[nodiscard]] bool buffered(std::size_t count) const { return end_ - begin_ >= count; }

 private:
  // Reads once from the socket, behind what is buffered.
  void fill();

  std::string peer_;
  int fd_;
  std::string buffer_;
  std::size_t begin_ = 0;  // of what is not read yet
  std::size_t end_ = 0;
};

// Whether somebody listens at that port of the loopback.
bool listens(int port);

// The file of a program, wherever the system keeps it. Ends the benchmark if there is none, with
// the Debian package that has it.
std::string program_of_package(const std::string& program, const std::string& package);

}  // namespace strand::bench
