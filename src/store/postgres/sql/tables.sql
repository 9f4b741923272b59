-- The tables of a Strand store. Times and durations are milliseconds, times since 1970.
--
-- Names of queues, topics, labels and owners are text; keys, names of messages, dedup ids, reasons
-- and bodies are any bytes. Rows that change often are small, have room on their page (fillfactor),
-- and keep what changes out of the indexes where that can be had.

create table store (
  one      boolean primary key default true check (one),
  id       bigint not null,           -- of this store: its tokens are foreign to all others
  secret   bigint[] not null,         -- seals tokens
  own_clock boolean not null,         -- time is what callers say: see test_clock.sql
  time     bigint not null default 0  -- the latest that such a clock has shown
);

-- Of message ids, turns in the ready order, lanes, versions, publications.
create sequence numbers;
-- Of requests for leases: the epochs of the leases that one of them gets are 65536 times its number,
-- and those behind. An epoch must never come twice: leases are committed synchronously.
create sequence epochs;

create table queues (
  id               int primary key,
  name             text collate "C" not null unique,
  paused           boolean not null default false,
  max_attempts     bigint not null default 4,
  backoff          bigint[] not null default '{60000,300000,1800000}',
  jitter_percent   int not null default 0,
  retry_policy     text not null default 'block' check (retry_policy in ('block', 'skip')),
  on_exhausted     text not null default 'dead' check (on_exhausted in ('dead', 'park')),
  ttl              bigint,
  on_expired       text not null default 'drop' check (on_expired in ('drop', 'dead')),
  dedup_window     bigint not null default 300000,
  lease            bigint not null default 30000,
  starvation_after bigint not null default 30000,
  max_length       bigint not null default 0,
  notice_queue     text collate "C",
  notice_key       bytea,
  pattern          text collate "C"   -- it is a subscription
);
create index queues_limited on queues (id) where max_length > 0;
create index queues_subscribed on queues (pattern) where pattern is not null;

-- What was added to and taken from queues, a row for each transaction, so that no two of them wait
-- for each other. Upkeep adds them up now and then.
create table tallies (
  queue    int not null,
  accepted bigint not null default 0,
  acked    bigint not null default 0,
  expired  bigint not null default 0,
  dropped  bigint not null default 0,
  moved    bigint not null default 0,
  purged   bigint not null default 0,
  dead     bigint not null default 0,
  bytes    bigint not null default 0  -- that its live messages take, by estimate
);
create index tallies_queue on tallies (queue);

-- One row for each key with messages, a lease, or something to remember. Whoever adds or ends
-- messages of a lane holds the lock of its row: that is what makes their order that of commits.
create table lanes (
  id             bigint primary key,
  queue          int not null,
  key            bytea not null,
  label          text collate "C" not null default '',
  -- Its messages: all of them; those under the lease; those whose time has not come, and of these
  -- those in backoff; and the others by priority, of which a barrier may hold some back.
  live           int not null default 0,
  carried        int not null default 0,
  waiting        int not null default 0,
  backoff        int not null default 0,
  woken_0        int not null default 0,
  woken_1        int not null default 0,
  woken_2        int not null default 0,
  woken_3        int not null default 0,
  barrier_due    bigint,              -- the place of the first message that blocks the lane
  barrier_id     bigint,
  -- Ready: it can be leased. The lower turn is served first.
  turn           bigint,
  priority       int not null default 2,
  ready_since    bigint,
  -- The lease.
  epoch          bigint,
  lease_until    bigint,
  cursor         bigint not null default 1,
  isolated       boolean not null default false,
  graced         boolean not null default false,
  request_client bigint,
  request_number bigint,
  -- What is remembered.
  park_reason    bytea,
  isolate_next   boolean not null default false,
  hint_owner     text collate "C",
  hint_until     bigint,
  hint_grace     bigint,
  last_time      bigint not null default 0,  -- acceptance of its latest message
  unique (queue, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
create index lanes_ready on lanes (queue, priority, turn) where turn is not null;
create index lanes_labelled on lanes (queue, label, priority, turn)
  where turn is not null and label <> '';
create index lanes_leased on lanes (lease_until, epoch) where lease_until is not null;
create index lanes_hidden on lanes (queue, priority, turn)
  where turn is not null and hint_owner is not null;
create index lanes_hinted on lanes (hint_until) where hint_until is not null;

-- Live messages. An unkeyed one has no lane. It is in `ready` while it can be leased; its lease
-- stands in a bundle, or in its own row.
create table messages (
  queue        int not null,
  id           bigint not null,
  lane         bigint,
  due          bigint not null,       -- (due, id) is its place in the lane
  priority     int not null,
  bytes        int not null,          -- of body and headers
  enqueued_at  bigint not null,
  expires_at   bigint,
  ttl_at       bigint,                -- the same, unless it is leased: then it does not matter
  wakes_at     bigint,                -- when it can be visible, while that lies ahead
  not_before   bigint,                -- in backoff until then
  blocks       boolean not null default false,  -- and holds its lane back
  attempts     int not null default 0,
  deliveries   int not null default 0,
  epoch        bigint,                -- of the lease that carries it
  pulled       bigint,                -- and the cursor with which it was pulled
  turn         bigint,                -- in `ready`, or that it had there when a bundle took it
  lease_until  bigint,
  graced       boolean not null default false,
  request_client bigint,
  request_number bigint,
  park_reason  bytea,
  notice       boolean not null default false,  -- tells of the end of another message
  max_attempts bigint,
  label        text collate "C" not null default '',  -- that it brought
  name         bytea,
  notice_queue text collate "C",
  notice_key   bytea,
  topic        text collate "C",
  failure_times   bigint[],
  failure_reasons bytea[],
  headers      bytea,                 -- each name and value with its length in front
  body_at      bigint,                -- in `bodies`, shared with others
  body         bytea,
  primary key (queue, id)
) with (fillfactor = 50, toast_tuple_target = 512, autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- Large bodies stand apart, where no update of the row touches them.
alter table messages alter column body set storage external;
create index messages_lane on messages (lane, due, id) where lane is not null;
create index messages_block on messages (lane, due, id) where blocks;
create index messages_waking on messages (wakes_at, id) where wakes_at is not null;
-- Without the epoch, so that a lease of a lane changes nothing that its messages' indexes know.
create index messages_leased on messages (lease_until) where lease_until is not null;
create index messages_ending on messages (ttl_at, id) where ttl_at is not null;
create unique index messages_named on messages (queue, name) where name is not null;
create index messages_sharing on messages (body_at) where body_at is not null;

-- Unkeyed messages that can be leased, in their order. Whoever ends such a message locks its row here
-- before its own.
create table ready (
  queue    int not null,
  priority int not null,
  turn     bigint not null,
  id       bigint not null,
  since    bigint not null,
  ttl_at   bigint,
  bytes    int not null,
  label    text collate "C" not null,
  primary key (queue, priority, turn)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
create index ready_labelled on ready (queue, label, priority, turn) where label <> '';

-- Leases of unkeyed messages that one request got together, and that are mostly acked together too:
-- so their messages are not written to. Whatever concerns only some of them, or is more than an ack,
-- opens the bundle first: then each lease stands in its message's row.
create table bundles (
  number         bigint primary key,  -- from `epochs`: the lease of the n-th id has number * 65536 + n - 1
  queue          int not null,
  ids            bigint[] not null,
  held           int not null,        -- of its messages, so many are still there
  lease_until    bigint not null,
  graced         boolean not null default false,
  request_client bigint,
  request_number bigint
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
create index bundles_leased on bundles (lease_until);
create index bundles_queue on bundles (queue);

create table dead (
  queue        int not null,
  id           bigint not null,
  key          bytea,
  due          bigint not null,
  priority     int not null,
  bytes        int not null,
  enqueued_at  bigint not null,
  expires_at   bigint,
  attempts     int not null,
  deliveries   int not null,
  notice       boolean not null,
  max_attempts bigint,
  label        text collate "C" not null,
  name         bytea,
  notice_queue text collate "C",
  notice_key   bytea,
  topic        text collate "C",
  failure_times   bigint[],
  failure_reasons bytea[],
  headers      bytea,
  body_at      bigint,
  body         bytea,
  dead_at      bigint not null,
  reason       bytea not null,
  primary key (queue, id)
);
create index dead_sharing on dead (body_at) where body_at is not null;

-- Bodies of publications that several queues got, or that their topic retains.
create table bodies (
  id   bigint primary key,
  body bytea not null
);

create table topics (
  name   text collate "C" primary key,
  retain bigint not null
);
create table retained (
  topic    text collate "C" not null,
  id       bigint not null,           -- of the publication, and of its body
  at       bigint not null,
  key      bytea,
  priority int not null,
  ttl      bigint,
  headers  bytea,
  bytes    int not null,
  primary key (topic, id)
);
create index retained_body on retained (id);

-- Dedup ids: of a queue, or (queue 0) of a topic.
create table dedup (
  queue    int not null,
  topic    text collate "C" not null,
  dedup_id bytea not null,
  first    bigint not null,
  ends_at  bigint not null,
  primary key (queue, topic, dedup_id)
);
create index dedup_ends on dedup (ends_at);

-- Transaction ids, with what the transaction did.
create table clients (
  client    bigint primary key,
  lowest    bigint not null,          -- the client has its answers to all numbers below
  forget_at bigint not null
);
create index clients_end on clients (forget_at);
create table receipts (
  client      bigint not null,
  number      bigint not null,
  fingerprint bytea not null,
  forget_at   bigint not null,
  time        bigint not null,
  sent        bigint[] not null default '{}',
  duplicate   boolean[] not null default '{}',
  published   bigint[] not null default '{}',
  republished boolean[] not null default '{}',
  matched     int[] not null default '{}',
  cancelled   boolean[] not null default '{}',
  versions    bigint[] not null default '{}',
  affected    bigint not null default 0,
  primary key (client, number)
);
create index receipts_end on receipts (forget_at);

-- Request ids, with the leases that they got.
create table requests (
  client    bigint not null,
  number    bigint not null,
  forget_at bigint not null,
  places    bigint[] not null,
  epochs    bigint[] not null,
  primary key (client, number)
);
create index requests_end on requests (forget_at);

-- Histories. The last execution of each instance, the ones before it, and all events.
create table instances (
  queue           int not null,
  key             bytea not null,
  number          bigint not null unique,
  first_execution bigint not null,
  execution       bigint not null,
  length          bigint not null,
  first_event     bigint not null,    -- those before were trimmed
  label           text collate "C" not null,
  outcome         bytea,              -- none: open
  opened_at       bigint not null,
  updated_at      bigint not null,
  primary key (queue, key)
);
create table executions (
  instance    bigint not null,
  execution   bigint not null,
  length      bigint not null,
  first_event bigint not null,
  label       text collate "C" not null,
  outcome     bytea,
  opened_at   bigint not null,
  updated_at  bigint not null,
  primary key (instance, execution)
);
create table events (
  instance  bigint not null,
  execution bigint not null,
  number    bigint not null,
  event     bytea not null,
  primary key (instance, execution, number)
);
alter table events alter column event set storage external;

create table records (
  space   bytea not null,
  key     bytea not null,
  version bigint not null,
  value   bytea not null,
  primary key (space, key)
) with (fillfactor = 80);
