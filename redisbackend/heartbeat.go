package redisbackend

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/redisbackend/internal/line"
)

// A backend with [Options].Heartbeat is a member of a sorted set under its prefix. A beat renews
// the member and counts all of them. For example of four processes one crashes at 1 s, and then
// Redis:
//
//	 0 s   this process beats: there are 4. A beat lasts for 10 s (beatLasts)
//	 1 s   another process crashes; its latest beat was at 0 s
//	 3 s   beat (beatEvery): 4
//	 6 s   beat: 4
//	 9 s   beat: 4
//	12 s   beat: 3. The largest of the latest four counts is 4, so the number stays
//	21 s   beat: 3. Now all four counts are 3, and so is the number
//	23 s   Redis dies: each fallback admits a third
//	24 s   a beat fails, and is sent again after a second (beatRetry). The number stays
//
// A count is too small if Redis has lost members: it was restarted without data, a replica that was
// behind took over, or its clock stepped forward. Then each process that lives is back after its
// own next beat. The number rises at once and falls late, so none of that lowers it.

const (
	// beatEvery is the time from the end of a beat to the next.
	beatEvery = 3 * time.Second

	// beatLasts is how long a beat counts. Two beats may fail meanwhile: if all calls take
	// beatTimeout, the third arrives within 1 s + 3 s + 2·(1 s + 1 s) + 1 s.
	beatLasts = 10 * time.Second

	// beatRetry is the pause after a beat that failed.
	beatRetry = time.Second

	// beatTimeout is how long a beat waits for an answer.
	beatTimeout = line.CallTimeout

	// beatsInRow is how many counts in a row make the number fall. From the first to the fourth it
	// takes 9 s at least. Every process that reaches Redis has beaten meanwhile, even if one of its
	// beats failed and all calls take beatTimeout: 1 s + 3 s + (1 s + 1 s) + 1 s.
	beatsInRow = 4
)

// heartbeat counts this process among those that share a prefix, and knows how many there are.
type heartbeat struct {
	servers   *servers
	key       string // its name in Redis
	member    string
	instances atomic.Int64 // census.number
	once      sync.Once    // closes stop
	stop      chan struct{}
	stopped   chan struct{} // closed when no beat is under way any more

	census   census
	failures int // beats in a row
}

// maxInstances bounds what is believed of a reply.
const maxInstances = math.MaxInt32

// newHeartbeat returns a heartbeat that does not run.
func newHeartbeat(s *servers) *heartbeat {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return &heartbeat{
		servers: s, key: s.encoder.NameOf("instances"), member: hex.EncodeToString(id[:]),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// run counts this process until close.
func (h *heartbeat) run() {
	defer close(h.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-timer.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), beatTimeout)
		n, err := h.send(ctx, beatLasts)
		cancel()
		timer.Reset(h.answered(n, err))
	}
}

// answered records the answer to a beat and returns the pause before the next.
func (h *heartbeat) answered(n int64, err error) (pause time.Duration) {
	if err != nil {
		h.census.missed()
		if h.failures++; h.failures == beatsInRow {
			h.log(slog.LevelWarn, "weir: instances are not counted: their number stays", err)
		}
		return beatRetry
	}
	h.census.counted(n)
	h.instances.Store(h.census.number)
	if h.failures >= beatsInRow {
		h.log(slog.LevelInfo, "weir: instances are counted again", nil)
	}
	h.failures = 0
	return beatEvery
}

// send makes this process count for a time, or with 0 no more. It returns how many there are.
func (h *heartbeat) send(ctx context.Context, lasts time.Duration) (n int64, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = line.Panicked(v)
		}
	}()
	e := h.servers.errand(ctx, &beatScript, h.key, 1, maxInstances, h.member, lasts.Microseconds())
	e.Priority = line.Renewing
	if err := h.servers.lines.SendAll(ctx, []*line.Errand{e})[0]; err != nil {
		return 0, err
	}
	return e.Numbers[0], nil
}

func (h *heartbeat) log(level slog.Level, message string, err error) {
	defer func() { _ = recover() }() // a panic of the logger cannot be logged
	logger := h.servers.lines.Logger
	if logger == nil {
		logger = slog.Default()
	}
	attrs := []slog.Attr{slog.Int64("instances", h.census.number)}
	if err != nil {
		attrs = append(attrs, slog.Any("error", withCommands(err)))
	}
	logger.LogAttrs(context.Background(), level, message, attrs...)
}

// withCommands adds the commands of a beat to the error of a server that forbids one of them.
func withCommands(err error) error {
	if isForbidden(err) {
		return fmt.Errorf("%w: allow the user +zadd +zrem +zcard +zremrangebyscore +pexpire", err)
	}
	return err
}

// close ends the beats and removes this process from the set, within a second.
func (h *heartbeat) close() {
	h.once.Do(func() { close(h.stop) })
	ctx, cancel := context.WithTimeout(context.Background(), beatTimeout)
	defer cancel()
	select {
	case <-h.stopped: // otherwise a beat might arrive after the removal
		_, _ = h.send(ctx, 0) // without it this process counts for beatLasts
	case <-ctx.Done():
	}
}

// census is how many processes there are, as the counts of one process tell. The zero census knows
// nothing.
type census struct {
	number int64             // 0: not known
	latest [beatsInRow]int64 // counts
	inRow  int               // how many of these are in a row
}

// counted records a count. The number is at once at least n. It falls to the largest of the latest
// counts if these are in a row.
func (c *census) counted(n int64) {
	copy(c.latest[1:], c.latest[:])
	c.latest[0] = n
	c.inRow++
	if c.inRow < beatsInRow {
		c.number = max(c.number, n)
		return
	}
	c.number = 0
	for _, n := range c.latest {
		c.number = max(c.number, n)
	}
}

// missed records that a beat was not answered.
func (c *census) missed() { c.inRow = 0 }
