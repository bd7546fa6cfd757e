//go:build crashpoints

package crashpoint

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
)

// At reports to the listener that a step has reached a point, and waits until
// it may continue.
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
