// Package process runs the egress proxy of a node as a process of its own, so that the
// daemon, which is root, parses nothing that a jail or a server sends.
//
// Process is the daemon's side: it starts the proxy, tells it which jails there are, passes
// it the sockets that their inits connect to, and passes on what the hub says to it. Main is
// the proxy's side: it gives up what it may do as root, and serves. The proxy opens its
// connections itself; tokens and the keys of jails' authorities are in its memory only.
//
// If the proxy dies, nothing leaves the jails: their sockets are not accepted from. The
// daemon starts it again and tells it everything again; connections have ended, what was
// counted of the execs that run is lost, and records that were not sent yet are read from
// its folder. If the daemon dies, the proxy ends with the socket between them. One that does
// not is killed by the next daemon, whose proxy waits for its end: two never have one folder.
package process
