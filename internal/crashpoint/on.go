//go:build crashpoints

package crashpoint

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
)

// At tells the listener that a step has come to a point, and waits until it may
// continue.
func At(point Point, task, step string) {
	socket := os.Getenv(Env)
	if socket == "" {
		socket = JailSocket
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(Hit{point, task, step}); err != nil {
		return
	}
	_, _ = bufio.NewReader(conn).ReadString('\n') // its end is an answer too
}
