// Package nodeexec is people's commands and terminals on nodes, beside those of
// agents: in an agent's jail, or for administrators on the machine itself under
// the node's lock.
//
// A command is a row before it is sent to its node, with its redacted argv in
// clear and the whole request sealed, and again when it has ended. Its id is
// the node's ledger key, so it starts at most once. Its starter may go
// away: the service follows each to its end, writes what became of it, and
// gives back the lock that it took.
//
// When a hub dies, the next one that holds the node's link finds the rows that
// have not ended and follows them. A row whose command the node never got ends
// as not_started: that is certain only once the node has said so.
package nodeexec
