#include "store/postgres/planted_sql.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/planted.h"

namespace strand::postgres {

namespace {

// A bug that is not there any more, because the SQL has changed, would be one that nobody notices.
[[maybe_unused]] void swap(std::string& sql, std::string_view right, std::string_view wrong) {
  const std::size_t at = sql.find(right);
  if (at == std::string::npos) {
    std::fprintf(stderr, "the schema has no '%s'\n", std::string(right).c_str());
    std::abort();
  }
  sql.replace(at, right.size(), wrong);
}

}  // namespace

std::string plant(std::string sql) {
  if (STRAND_PLANTED("sql-stale-token-acks")) {
    swap(sql, "m.id = o.id and m.epoch = p_epochs[o.of]\n         and m.lease_until > p_now",
         "m.id = o.id");
  }
  if (STRAND_PLANTED("sql-bundle-outlives-its-lease")) {
    swap(sql, "continue when b.lease_until <= p_now;", "");
  }
  if (STRAND_PLANTED("sql-bundle-never-expires")) {
    swap(sql, "number <> all (v_bundles)", "false");
  }
  if (STRAND_PLANTED("sql-bundle-keeps-counting-the-acked")) {
    swap(sql, "b.held := b.held - cardinality(v_ended);", "");
  }
  if (STRAND_PLANTED("sql-renewal-of-one-renews-its-bundle")) {
    swap(sql, "cardinality(v_of_it) = b.held and", "");
  }
  if (STRAND_PLANTED("sql-bundle-does-not-count-deliveries")) {
    swap(sql, "graced = b.graced, deliveries = m.deliveries + 1,", "graced = b.graced,");
  }
  if (STRAND_PLANTED("sql-ended-message-keeps-its-turn")) {
    swap(sql,
         "delete from ready where queue = m.queue and priority = m.priority and turn = m.turn;",
         "");
  }
  if (STRAND_PLANTED("sql-claim-takes-what-others-hold")) {
    swap(sql, "order by r.priority, r.turn limit p_limit for update skip locked)",
         "order by r.priority, r.turn limit p_limit)");
  }
  if (STRAND_PLANTED("sql-lane-in-order-of-ids")) {
    swap(sql, "order by m.due, m.id limit p_messages loop", "order by m.id limit p_messages loop");
  }
  if (STRAND_PLANTED("sql-late-arrival-lost-with-its-lane")) {
    swap(sql, "l.id = u.id and l.live = u.count and", "l.id = u.id and");
  }
  if (STRAND_PLANTED("sql-ack-of-all-is-not-counted")) {
    swap(sql,
         "select g.queue, count(*), -sum(g.bytes + 144) from gone g group by g.queue)\n  select",
         "select g.queue, 0, 0 from gone g where false)\n  select");
  }
  if (STRAND_PLANTED("sql-grace-every-open")) swap(sql, "not graced;", "true;");
  if (STRAND_PLANTED("sql-dedup-window-never-ends")) {
    swap(sql, "do update set first = 0, ends_at = excluded.ends_at where d.ends_at <= p_now;",
         "do update set ends_at = excluded.ends_at where false;");
  }
  if (STRAND_PLANTED("sql-due-by-kind-and-not-by-time")) {
    swap(sql, "order by at, kind, number limit 1", "order by kind, at, number limit 1");
  }
  if (STRAND_PLANTED("sql-poison-is-not-isolated")) swap(sql, "l.isolate_next := true;", "");
  if (STRAND_PLANTED("sql-receipt-of-an-unanswered-forgotten")) {
    swap(sql, "client = p_client and number < p_lowest",
         "client = p_client and number <= p_lowest");
  }
  if (STRAND_PLANTED("sql-record-version-not-compared")) {
    swap(sql, "p_expected[i] is not null and coalesce(v_version, 0) <> p_expected[i]", "false");
  }
  if (STRAND_PLANTED("sql-trim-leaves-an-event")) {
    swap(sql, "number >= t.first_event and number < p_before[i];",
         "number > t.first_event and number < p_before[i];");
  }
  if (STRAND_PLANTED("sql-nobody-is-told-of-a-ready-lane")) {
    swap(sql, "perform tell_queue(r.queue);\n      v_told", "v_told");
  }
  return sql;
}

}  // namespace strand::postgres
