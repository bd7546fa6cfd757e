// Command site serves the web site of the browser's tests on a port of loopback.
package main

import (
	"fmt"
	"net/http"
	"os"

	"github.com/deckhand-sh/deckhand/node/skill/browser/browsertest"
)

func main() {
	if err := http.ListenAndServe("127.0.0.1:"+os.Args[1], &browsertest.Site{}); err != nil { //nolint:gosec // for tests
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
