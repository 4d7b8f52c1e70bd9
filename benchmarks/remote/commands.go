package remote

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Commands are the commands that clients send, by their names in INFO commandstats. Commands called
// by a script are not included: their time counts under their own name and again under the
// script's.
type Commands []string

// CommandsOf returns the commands that clients send while during runs. It returns an error if a
// script also calls one of them: the two could not be distinguished.
func (s *Server) CommandsOf(
	ctx context.Context, client *redis.Client, during func() error,
) (Commands, error) {
	const end = "monitored"
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil {
		return nil, err
	}
	if !lines.Scan() || lines.Text() != "+OK" {
		return nil, fmt.Errorf("MONITOR is answered %q: %w", lines.Text(), lines.Err())
	}
	if err := during(); err != nil {
		return nil, err
	}
	if err := client.Echo(ctx, end).Err(); err != nil {
		return nil, err
	}
	sent, called := make(map[string]bool), make(map[string]bool)
	for lines.Scan() {
		// +1700000000.123456 [0 127.0.0.1:50001] "command" "argument" …, or [0 lua]
		_, rest, _ := strings.Cut(lines.Text(), "[")
		from, rest, _ := strings.Cut(rest, "] \"")
		name, rest, _ := strings.Cut(rest, "\"")
		switch name = strings.ToLower(name); {
		case name == "echo" && strings.Contains(rest, end):
			for name := range sent {
				if called[name] {
					return nil,
						fmt.Errorf("%s is sent by clients and called by scripts: INFO "+
							"commandstats adds both", name)
				}
			}
			return slices.Sorted(maps.Keys(sent)), nil
		case strings.HasSuffix(from, " lua"):
			called[name] = true
		case name != "hello" && name != "client": // about the connection
			sent[name] = true
		}
	}
	return nil, fmt.Errorf("MONITOR ended: %w", lines.Err())
}

// Micros returns the total time in microseconds for which the server has executed the commands.
func (s *Server) Micros(ctx context.Context, client *redis.Client, commands Commands) (float64, error) {
	text, err := client.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	total := 0.0
	for line := range strings.Lines(text) {
		// cmdstat_evalsha:calls=5,usec=210,usec_per_call=42.00,…
		name, stats, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":")
		if !ok || !slices.Contains(commands, name) {
			continue
		}
		for part := range strings.SplitSeq(stats, ",") {
			if micros, ok := strings.CutPrefix(part, "usec="); ok {
				n, err := strconv.ParseFloat(micros, 64)
				if err != nil {
					return 0, fmt.Errorf("INFO commandstats: %q: %w", line, err)
				}
				total += n
			}
		}
	}
	return total, nil
}
