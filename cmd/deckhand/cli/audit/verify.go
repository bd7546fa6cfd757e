package audit

import (
	"crypto/ed25519"
	"encoding/hex"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// verifyOptions are the flags of audit verify.
type verifyOptions struct {
	key string
}

func verifyCommand(e *env.Env) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use: "verify [FILE]", Short: "Verify an export or receipt offline",
		Long: `Reads an export of deckhand audit export, or a receipt of deckhand task receipt,
from a file or standard input. Exit code 1 when a byte of it is not what its hub
has written, when anything is missing, or when it is signed with another key than
--key. Without --key, compare the key that is shown with the one that you noted
when you set the hub up.`,
		Example: `deckhand audit verify audit.jsonl
deckhand audit export | deckhand audit verify --key "$(cat audit-key)"`,
		Args: env.Args("[FILE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var public ed25519.PublicKey
			if o.key != "" {
				data, err := hex.DecodeString(strings.TrimSpace(o.key))
				if err != nil || len(data) != ed25519.PublicKeySize {
					return env.Usage(cmd, "--key is not %d hexadecimal digits", 2*ed25519.PublicKeySize)
				}
				public = data
			}
			in := e.In
			if len(args) == 1 && args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return env.Failed(env.ExitNotFound, fault.New(fault.NotFound, "cannot read the export: %s", err))
				}
				defer f.Close()
				in = f
			}
			return verify(e, in, public)
		},
	}
	cmd.Flags().StringVar(&o.key, "key", "", "the public `KEY` that must have signed it, in hexadecimal")
	return cmd
}
