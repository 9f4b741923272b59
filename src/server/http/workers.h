#pragma once

#include <atomic>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace strand::server::http {

// Threads for what may block, so that the one that serves all connections never does.
//
// Threads: all but stop() by the thread that runs `io`.
class Workers {
 public:
  // `io` must outlive it. At most `limit` calls are under way or wait.
  Workers(boost::asio::io_context& io, std::size_t threads, std::size_t limit)
      : io_(io), pool_(threads), limit_(limit) {}

  [[nodiscard]] bool full() const { return under_way_ >= limit_; }
  [[nodiscard]] std::size_t under_way() const { return under_way_; }

  // Calls `work`, which must not throw, on one of the threads; goes on here with what it returned.
  template <class Work>
  boost::asio::awaitable<std::invoke_result_t<Work>> run(Work work) {
    namespace asio = boost::asio;
    using Returned = std::invoke_result_t<Work>;
    ++under_way_;
    Returned returned =
        co_await asio::async_initiate<const asio::use_awaitable_t<>, void(Returned)>(
            [this](auto handler, Work call) {
              asio::post(
                  pool_, [this, handler = std::move(handler), call = std::move(call)]() mutable {
                    Returned result = stopping_ ? Returned{} : call();
                    asio::post(
                        io_, [handler = std::move(handler), result = std::move(result)]() mutable {
                          std::move(handler)(std::move(result));
                        });
                  });
            },
            asio::use_awaitable, std::move(work));
    --under_way_;
    co_return returned;
  }

  // Waits for what runs; what waits is not begun any more. `io` must not run any more.
  void stop() {
    stopping_ = true;
    pool_.join();
  }

 private:
  boost::asio::io_context& io_;
  boost::asio::thread_pool pool_;
  const std::size_t limit_;
  std::atomic<std::size_t> under_way_ = 0;
  std::atomic<bool> stopping_ = false;
};

}  // namespace strand::server::http
