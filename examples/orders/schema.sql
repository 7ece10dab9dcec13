-- The order service's own tables. The outbox and the inbox come from "relay migrate up".

create table if not exists orders (
    order_id    text primary key,
    customer    text not null,
    total_cents bigint not null,
    step        text not null,
    version     integer not null
);

-- What was announced, and under which message id: the demo compares it with what arrived.
create table if not exists order_history (
    order_id   text not null references orders,
    version    integer not null,
    step       text not null,
    message_id uuid not null unique,
    primary key (order_id, version)
);

create table if not exists mail_requested (
    order_id   text primary key references orders,
    message_id uuid not null unique
);

-- The consumers' tables. An effect has no unique constraint on purpose: if the inbox let one through twice, the demo would see it.
create table if not exists order_projection (
    order_id text primary key,
    step     text not null,
    version  integer not null
);

create table if not exists effect (
    seq        bigint generated always as identity primary key,
    consumer   text not null,
    message_id uuid not null,
    order_id   text not null,
    version    integer not null
);

-- Every delivery as it came, in a transaction of its own: what the broker handed over, and what the inbox said.
create table if not exists delivery (
    seq        bigint generated always as identity primary key,
    consumer   text not null,
    message_id uuid, -- null: a message that is not ours
    position   text not null,
    outcome    text not null
);
