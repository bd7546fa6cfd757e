// Package crashpoint names the points in a step's life at which fault tests
// kill a process: the hub, a worker, the node daemon, deckhand-init, or a
// dependency such as PostgreSQL.
//
// The points exist only in binaries built with the tag crashpoints. In all
// other binaries At is empty and compiles to nothing, and the names of the
// points do not occur in the binary; a test verifies that.
//
// With the tag, a process that reaches a point reports it to a listener, the
// test, and waits for its reply. The test can then kill that process or another
// one while the step is in exactly that state, and continue after the killed
// process is gone. If there is no listener, or its connection breaks, the
// process continues.
package crashpoint

// Point is a moment in the life of a step.
type Point string

// The points, in the order in which a step reaches them, each with the process
// that it stops.
const (
	// BeforeIntent: the hub is about to store a call that a worker proposed.
	BeforeIntent Point = "crash-before-intent"
	// AfterIntent: the hub has stored the call with its decision, and has not
	// answered yet.
	AfterIntent Point = "crash-after-intent"
	// AfterGrant: the worker has read that the step is granted, and has not
	// asked for it to run.
	AfterGrant Point = "crash-after-grant"
	// AfterStart: the hub has stored that the step was started, and has not
	// asked the node.
	AfterStart Point = "crash-after-start"
	// AfterLedger: the node has the command in its ledger, and has not asked
	// init to start it.
	AfterLedger Point = "crash-after-ledger"
	// AfterSpawn: init has started the command, and has not said so.
	AfterSpawn Point = "crash-after-spawn"
	// AfterExit: the command's whole tree has ended, and init has not written
	// its end down.
	AfterExit Point = "crash-after-exit"
	// BeforeOutcome: the hub knows how the command ended, and is about to store
	// it.
	BeforeOutcome Point = "crash-before-outcome"
	// AfterOutcome: the hub has stored the outcome, and has not answered yet.
	AfterOutcome Point = "crash-after-outcome"

	// AfterDelivery: the hub has stored what a webhook's sender sent, and has not
	// answered yet. It is no moment of a step's, and has the delivery's id for a
	// task's.
	AfterDelivery Point = "crash-after-delivery"
	// AfterOutbound: the hub has sent the mail or the webhook of an agent's call, and has not
	// stored how that went.
	AfterOutbound Point = "crash-after-outbound"
	// AfterNotification: the hub has sent a notification and has not stored that. The
	// task field contains the notification's id.
	AfterNotification Point = "crash-after-notification"
)

// Hit is what the listener receives, as one line of JSON. It replies with a
// line, or closes the connection.
type Hit struct {
	Point Point
	// Task and Step are ids, empty where the process does not know them.
	Task, Step string
}

// Env names the listener's Unix socket to a process.
const Env = "DECKHAND_CRASHPOINTS"

// JailSocket is the listener's socket for the init of a jail, in the jail's
// state folder: a jail's init is started without an environment of the test's.
const JailSocket = "/run/deckhand/crashpoints.sock"
