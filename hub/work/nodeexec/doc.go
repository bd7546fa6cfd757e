// Package nodeexec runs people's commands and terminals on nodes: in an agent's jail, or,
// for administrators, on the machine itself under the node's lock. Execs submits, lists,
// follows and kills them.
//
// A command is stored before it is sent to its node, with its redacted argv in clear and
// the whole request encrypted, and updated when it has ended. Its id is the key of the
// node's ledger, so it starts at most once. The user who started it may disconnect: the
// service follows each command to its end, stores the result, and releases the lock that
// it took.
//
// If a hub dies, the next one that holds the node's link finds the commands that have not
// ended and follows them. A command that the node never received ends as not_started, but
// only once the node has confirmed that.
package nodeexec
