// Package freeport finds addresses for the servers that tests start as processes.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports are below those that systems give to outgoing connections, and to listeners that ask for any port: such a
// port may be taken again before the server listens on it.
const first, last = 10_000, 30_000

var given sync.Map // ports that this process has been given

// Address returns an address of this machine on which nobody listens. It returns no address twice.
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
