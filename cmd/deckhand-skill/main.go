// Command deckhand-skill reduces data inside a jail.
package main

import (
	"context"
	"os"

	"github.com/deckhand-sh/deckhand/node/skill"
)

func main() {
	skill.Confine()
	os.Exit(skill.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
