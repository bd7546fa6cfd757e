// Command deckhand-skill runs inside a jail. It summarises and searches files
// there (package skill), runs MCP servers (package mcpbridge), and drives a browser (package
// browser).
package main

import (
	"context"
	"os"

	"github.com/deckhand-sh/deckhand/node/skill"
	"github.com/deckhand-sh/deckhand/node/skill/browser"
	"github.com/deckhand-sh/deckhand/node/skill/mcpbridge"
)

func main() {
	// Confined, it would confine the server or the browser too.
	if len(os.Args) > 1 && os.Args[1] == "mcp" {
		os.Exit(mcpbridge.Main(context.Background(), os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "browser" {
		os.Exit(browser.Main(context.Background(), os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	skill.Confine()
	os.Exit(skill.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
