// Command deckhand-skill runs inside a jail. It summarises and searches files
// there (package skill) and runs MCP servers (package mcpbridge).
package main

import (
	"context"
	"os"

	"github.com/deckhand-sh/deckhand/node/skill"
	"github.com/deckhand-sh/deckhand/node/skill/mcpbridge"
)

func main() {
	// Confined, it would confine the server too.
	if len(os.Args) > 1 && os.Args[1] == "mcp" {
		os.Exit(mcpbridge.Main(context.Background(), os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	skill.Confine()
	os.Exit(skill.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
