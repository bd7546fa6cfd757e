// Package bus carries the hub's hints over NATS: wake-ups to workers, and
// "something changed" and streamed thinking between hub replicas.
//
// PostgreSQL is the truth; nothing here is. Wake-ups live in memory, in a
// work-queue stream with one durable consumer per pool, and are acknowledged
// by the worker when its claim is made; a sweeper publishes again what got
// lost. When the NATS server forgets the stream, the bus makes it anew as soon
// as it is connected again. Events are best-effort: a subscriber that misses
// one reads the database a little later.
//
// Accounts keep the users apart. WORK has the stream, and the hub in it.
// EVENTS has hubs, and who listens to lifecycle events. In the embedded Server the workers of each pool have
// an account of their own, which imports from WORK the three subjects of their
// consumer: there a worker may look at the consumer, pull, and acknowledge, and
// do nothing else. Were it in WORK, it could name one of JetStream's own
// subjects as the place to answer its pulls to, and JetStream would take the
// answer for an order. testdata/nats.conf serves for a NATS server of your own.
package bus
