// Package nodelink contains what both ends of the link between hub and node
// must agree on, apart from the protos: their names in TLS and the maximum size
// of a message.
//
// The node dials the hub's edge with TLS 1.3 and a client certificate, and then
// serves gRPC on that connection; the hub is the gRPC client.
package nodelink

import (
	"strings"
	"time"
)

const (
	// ALPN is the protocol that both ends offer in the TLS handshake. A change
	// that is incompatible with older ends gets another name; all other changes
	// use Capability.
	ALPN = "deckhand-link/1"

	// PeerALPN is what hub replicas speak to each other on the same port: the
	// services of a node that the other one holds.
	PeerALPN = "deckhand-peer/1"

	// ServerName is the name in the edge's certificate, wherever the edge is
	// reached: nodes trust no other CA than their hub's, and that CA signs no
	// other server.
	ServerName = "edge.deckhand.internal"

	// BusServerName is the name in the certificate of the NATS server inside a
	// hub, wherever workers reach it.
	BusServerName = "bus.deckhand.internal"

	// NodeURIScheme is the first part of the URI that names the node in its
	// certificate: deckhand://node/<node id>.
	NodeURIScheme = "deckhand"
	// NodeURIHost is its second part.
	NodeURIHost = "node"
	// ReplicaURIHost is the second part for a hub replica.
	ReplicaURIHost = "hub"

	// ProxySecret begins the first line of the standard input of a command that makes the
	// call of a tool; the rest of the line is the password that its requests have for the
	// egress proxy, by which that knows them. It is not in the command's environment, which
	// other commands of the jail can read.
	ProxySecret = "deckhand-proxy-secret " //nolint:gosec // what comes before one
	// SkillPath is where deckhand-skill is in a jail.
	SkillPath = "/.deckhand-skill"
	// SkillsPath is the folder of the operator's own skills in a jail.
	SkillsPath = "/.deckhand-skills"
	// PacksPath is the folder of the node's packs in a jail: NAME/current has the files of one.
	PacksPath = "/.deckhand-packs"

	// OutputsPath is the folder in a jail with the output of each step's command that ran
	// there, whole, in a file with the name of the step's run.
	OutputsPath = "/deckhand/out"

	// HostJail is the id of the machine itself among a node's jails.
	HostJail = "host"

	// HostFolder begins the id by which a node records a folder of the machine, and confines
	// file operations to it; the folder's absolute path follows.
	HostFolder = "host:"

	// BrowsedFiles takes the place of a jail's id in requests that read the folders of the
	// machine in browse-paths; their paths are absolute. No jail has it, and no caller of the
	// hub can name it: ids have no colon.
	BrowsedFiles = "browsed:"

	// TrustPath is the folder in a jail with the certificates that its programs are to trust
	// for the hosts whose TLS the egress proxy terminates.
	TrustPath = "/deckhand/trust"

	// MaxMessageBytes bounds a gRPC message in either direction: the largest
	// file that WriteFile takes, and room for the rest of the message.
	MaxMessageBytes = 32<<20 + 1<<20

	// MaxHeaderBytes bounds the headers of a call in either direction: a procedure's
	// name, ids and an error's details.
	MaxHeaderBytes = 64 << 10

	// MissedHeartbeats is how many intervals a side waits without hearing
	// anything before it drops the link.
	MissedHeartbeats = 3

	// PingAfter is when gRPC's own keep-alive asks an end that said nothing,
	// which finds a dead connection in the middle of a large transfer.
	PingAfter = 15 * time.Second
	// PingTimeout is how long the reply may take.
	PingTimeout = 10 * time.Second
	// MinPingInterval is what the node's server forgives.
	MinPingInterval = 5 * time.Second
)

// The values of JailSpec.rootfs.
const (
	RootHost    = "host"    // the machine's own system folders
	RootImage   = "image"   // a container image
	RootMachine = "machine" // the machine itself: no jail
)

// OfflineGrace is on whose behalf a node kills a command when it was cut off
// from its hub for longer than the command may be.
const OfflineGrace = "offline grace"

// JobID returns the id of the job that an exec becomes when it goes on in the
// background. The changes that a job makes to its workspace are recorded under it.
func JobID(execID string) string {
	_, rest, _ := strings.Cut(execID, "_")
	return jobPrefix + rest
}

const jobPrefix = "job_"

// IsJobID reports whether an id is that of a job.
func IsJobID(id string) bool { return strings.HasPrefix(id, jobPrefix) }

// ReplicaServerName returns the name in a replica's certificate, which a client
// that dials the replica verifies.
func ReplicaServerName(replica string) string { return replica + ".replica.deckhand.internal" }

// Capability is the number a node tells in its Hello, for the hub to know what
// it may ask for. Its changelog:
//
//	1: sessions, jails, execs, files.
//	2: host mode (EnsureJailRequest.host_mode), NodeService, TelemetryService,
//	   stdin, signals, terminals and log search of execs.
//	3: FreezeJail, ThawJail and KillJail; KillExec of an id that the node has
//	   never seen keeps it from ever being started.
//	4: DescribeFiles, DownloadFiles, UploadEntry.expect_digest.
//	5: UploadFilesRequest.Begin.shared.
//	6: JailSpec.egress, Exec.egress.
//	7: ImageService, JailSpec.image.
//	8: JailSpec.writable_root, root_user and setup, FinishSetup.
//	9: Egress.bindings, authorities and Rule.http, EgressService.Channel.
//	10: UndoChangesRequest.paths, ReadState and ListState, IndexLog.
//	11: ExecSpec.host_paths, folders of the machine by HostFolder, GetMachine, GetUnit and
//	    ReadJournal.
//	12: ListLedger, Diagnose.
//	13: Upgrade, Hello.upgrade.
//	14: ReadJournal of the daemon's own log, MachineInfo.journal_units, BrowsedFiles;
//	    Egress.Binding.paths with httprule.DeniedMark.
//	15: PackService.
const Capability = Packs

// Capabilities that the hub checks before it uses calls that older nodes do not
// have.
const (
	// Artifacts is what bringing files from one workspace to another needs.
	Artifacts = 4
	// Shares is what sharing them for reading only needs.
	Shares = 5
	// Egress is what a persona that reaches hosts needs.
	Egress = 6
	// Images is what a persona whose jail is made from an image needs.
	Images = 7
	// WritableRoots is what a persona needs whose commands change the image or are root's,
	// or that sets the image up.
	WritableRoots = 8
	// Credentials is what a persona needs that uses credentials, or decides about requests
	// by method and path.
	Credentials = 9
	// States is what undoing single files needs, which older nodes would take for all files.
	States = 10
	// Machines is what agents need that work on the machine itself, or look at its services.
	Machines = 11
	// Ledger is what a restored hub needs to learn what a node did after the backup.
	Ledger = 12
	// Upgrades is what a node needs that replaces its own program.
	Upgrades = 13
	// Browsing is what a node needs to show its own log and folders of its machine.
	Browsing = 14
	// LeftOutPaths is what a credential needs whose paths leave some out.
	LeftOutPaths = 14
	// Packs is what installing packs through the hub needs.
	Packs = 15
)
