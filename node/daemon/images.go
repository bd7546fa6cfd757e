package daemon

import (
	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/node/image"
)

// Images says where a node's jails get their images from.
type Images struct {
	// Registries are the registries that images may be pulled from, as
	// host names with a port if need be, or *.example.com; none for every one.
	Registries Paths `koanf:"registries"`
	// RegistryAddresses are networks that registries may be reached in besides
	// public addresses, such as 10.0.0.0/8.
	RegistryAddresses string `koanf:"registry-addresses"`
	// RegistryConfig is a folder with a hosts.toml or a ca.crt per registry, as
	// containerd reads it.
	RegistryConfig string `koanf:"registry-config"`
	// Snapshotter is containerd's snapshotter for images; empty for overlayfs, or
	// native where that does not work.
	Snapshotter string `koanf:"snapshotter"`
}

// ImageFlags registers the flags that fill Images.
func ImageFlags(flags *pflag.FlagSet) {
	flags.StringSlice("registries", nil, "registries that images may be pulled from: ghcr.io,*.example.com; every one with an empty list")
	flags.String("registry-addresses", "", "networks that registries may be reached in besides public addresses: 10.0.0.0/8,127.0.0.1")
	flags.String("registry-config", image.DefaultRegistryConfig, "folder with a hosts.toml or a ca.crt per registry, as containerd reads it: mirrors and certificates")
	flags.String("snapshotter", "", "containerd's snapshotter for images (default overlayfs, or native where that does not work)")
}

// config returns the configuration of the image store.
func (i Images) config() (image.Config, error) {
	allow, err := dialguard.ParseAllow("registry-addresses", i.RegistryAddresses)
	return image.Config{
		Registries: i.Registries, RegistryAddresses: allow, RegistryConfig: i.RegistryConfig, Snapshotter: i.Snapshotter,
	}, err
}
