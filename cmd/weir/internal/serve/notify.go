package serve

import (
	"fmt"
	"net"
)

// States of sd_notify(3).
const (
	isReady  = "READY=1"
	isEnding = "STOPPING=1"
)

// tellSystemd sends a state to the socket that NOTIFY_SOCKET names: a unit of Type=notify waits for
// it. Without a socket it does nothing.
func tellSystemd(socket, state string) error {
	if socket == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", socket) // an abstract name begins with @ for both
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err
}
