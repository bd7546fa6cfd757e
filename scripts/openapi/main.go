// Command openapi writes the OpenAPI document of the REST API: openapi IMAGE OUT. IMAGE is
// a set of file descriptors with comments, as `buf build` writes it. scripts/generate runs
// it, and CI fails if the committed document differs.
//
// There are generators for this, and none of them describes our errors, headers and rights,
// so that their output would have to be changed in as many places as it has.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: openapi IMAGE OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func run(image, out string) error {
	data, err := os.ReadFile(image)
	if err != nil {
		return err
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(data, set); err != nil {
		return fmt.Errorf("read %s: %w", image, err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return fmt.Errorf("link %s: %w", image, err)
	}
	d := newDocument()
	files.RangeFilesByPackage("deckhand.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			if err = d.service(f.Services().Get(i)); err != nil {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(d.finish()); err != nil {
		return err
	}
	return os.WriteFile(out, text.Bytes(), 0o644) //nolint:gosec // a document for everybody
}
