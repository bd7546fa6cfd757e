// Package machine declares how the hub reaches a node's services.
//
// A [Link] is the connection to one node, over this replica's own link or through the
// replica that has it; hub/fleet/edge provides both and callers cannot tell them apart.
// Every call on a link fails with fault.NodeUnavailable while the node is not connected,
// and none of them is retried here: the caller decides which calls may be repeated.
package machine

import nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"

// Link gives clients of a node's services.
type Link interface {
	Exec() nodev1.ExecServiceClient
	Jails() nodev1.JailServiceClient
	Files() nodev1.FileServiceClient
	Snapshots() nodev1.SnapshotServiceClient
	Egress() nodev1.EgressServiceClient
	Images() nodev1.ImageServiceClient
	Packs() nodev1.PackServiceClient
	Node() nodev1.NodeServiceClient
	Telemetry() nodev1.TelemetryServiceClient
}
