#include "server/http/stats_source.h"

#include <utility>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace strand::server::http {

namespace asio = boost::asio;

asio::awaitable<Result<StatsSource::Snapshot>> StatsSource::get() {
  using std::chrono::steady_clock;
  while (reading_) {
    boost::system::error_code woken;
    co_await done_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
  if (!last_ || steady_clock::now() - read_at_ >= fresh_for) {
    reading_ = true;
    Store* const store = api_.store();
    auto read = co_await workers_.run([store] {
      Result<Snapshot> snapshot = failure(Errc::unavailable, "closing");
      if (auto stats = read_stats(*store)) {
        snapshot = std::make_shared<const StatsSnapshot>(*std::move(stats));
      } else {
        snapshot = std::unexpected(std::move(stats.error()));
      }
      return snapshot;
    });
    reading_ = false;
    last_ = std::move(read);
    read_at_ = steady_clock::now();
    done_.cancel();
  }
  co_return *last_;
}

}  // namespace strand::server::http
