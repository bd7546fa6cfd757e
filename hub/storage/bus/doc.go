// Package bus transfers the hub's hints over NATS: wake-ups to workers, and "something
// changed" and streamed thinking between hub replicas. Bus is the client; Server is the
// embedded server.
//
// PostgreSQL is the source of truth; nothing here is. Wake-ups are kept in memory, in a
// work-queue stream with one durable consumer per pool, and are acknowledged by the
// worker when it has claimed; a sweeper publishes lost ones again. If the NATS server
// loses the stream, the bus creates it again as soon as it is connected. Events are
// best-effort: a subscriber that misses one reads the database a little later.
//
// Accounts separate the users. WORK has the stream, and the hub. EVENTS has hubs, and
// subscribers of lifecycle events. In the embedded Server the workers of each pool have
// their own account, which imports from WORK the three subjects of their consumer: a
// worker may read the consumer, pull, and acknowledge, and nothing else. Inside WORK, it
// could name one of JetStream's own subjects as the reply subject of its pulls, and
// JetStream would execute the reply as a request. testdata/nats.conf is the configuration
// of an external NATS server.
package bus
