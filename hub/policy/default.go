package policy

import (
	_ "embed"
	"sync"
)

// DefaultYAML is the policy of an organisation that has applied none.
//
//go:embed default.yaml
var DefaultYAML string

// defaultName is what the default policy is called in decisions.
const defaultName = "default"

// Default returns the policies that apply if the organisation has none.
func Default() Set { return Set{{Name: defaultName, Policy: defaultPolicy()}} }

var defaultPolicy = sync.OnceValue(func() *Policy {
	p, err := Parse("default.yaml", []byte(DefaultYAML))
	if err != nil {
		panic(err) // it comes with the binary, and a test reads it
	}
	return p
})
