// Package freeport finds addresses for the servers that tests start as processes.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports are below those that systems assign to outgoing connections and to listeners on port 0:
// such a port may be in use again before the server listens on it.
const first, last = 10_000, 30_000

var given sync.Map // ports that Address has returned

// Address returns an address of this machine on which no server listens. It returns no address
// twice.
func Address() (string, error) {
	var err error
	for range 1000 {
		port := first + rand.IntN(last-first)
		if _, twice := given.LoadOrStore(port, true); twice {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("freeport: no port is free: %w", err)
}
