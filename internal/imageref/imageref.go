// Package imageref parses the names of container images. Hub and node read them in
// the same way: an image is named with its registry, and with a tag or a digest.
package imageref

import (
	"errors"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Parse parses a reference that names its registry and a tag, a digest or both. A
// short name such as "golang" is refused: which registry is meant would be a guess.
func Parse(text string) (reference.Named, error) {
	named, err := reference.ParseNamed(text)
	if err == nil && !reference.IsNameOnly(named) {
		return named, nil
	}
	e := fault.New(fault.Invalid, "image %q is not a complete reference", text).WithCode(fault.ImageUnavailable)
	guess, gerr := reference.ParseDockerRef(text)
	if gerr != nil {
		return nil, e.WithFix("write REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST, such as docker.io/library/debian:12").WithCause(errors.Join(err, gerr))
	}
	return nil, e.WithFix("name the registry and the tag or digest; if Docker Hub is meant, write %s", guess)
}

// Pinned parses a reference that names a digest, and drops its tag.
func Pinned(text string) (reference.Canonical, error) {
	named, err := Parse(text)
	if err != nil {
		return nil, err
	}
	digested, ok := named.(reference.Digested)
	if !ok {
		return nil, fault.New(fault.Invalid, "image %q names no digest", text).WithCode(fault.ImageUnavailable).
			WithFix("write REGISTRY/NAME@sha256:DIGEST")
	}
	return reference.WithDigest(reference.TrimNamed(named), digested.Digest())
}

// Pin returns a reference with the digest that its tag had.
func Pin(text, sum string) (string, error) {
	named, err := Parse(text)
	if err != nil {
		return "", err
	}
	pinned, err := reference.WithDigest(reference.TrimNamed(named), digest.Digest(sum))
	if err != nil {
		return "", fault.New(fault.Invalid, "%q is not a digest", sum).WithCode(fault.ImageUnavailable).WithCause(err)
	}
	return pinned.String(), nil
}

// Registry returns the host of a reference's registry, with its port if it has one.
func Registry(named reference.Named) string { return reference.Domain(named) }

// IsRegistry reports whether a text is the host of a registry, with its port if it has
// one. Docker Hub is docker.io.
func IsRegistry(text string) bool {
	named, err := Parse(text + "/path/name:tag")
	return err == nil && Registry(named) == text
}

// IsRepository reports whether a text is the name of a repository with its registry.
func IsRepository(text string) bool {
	named, err := Parse(text + ":tag")
	return err == nil && named.Name() == text
}

// Named is a parsed reference.
type Named = reference.Named

// HasDigest reports whether a reference names a digest.
func HasDigest(named Named) bool {
	_, ok := named.(reference.Digested)
	return ok
}
