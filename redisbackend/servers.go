package redisbackend

import (
	"context"
	"time"

	"github.com/weir-go/weir/redisbackend/internal/line"
	"github.com/weir-go/weir/redisbackend/internal/wire"
)

// servers is the way to the Redis servers of a client: the lines, and what writes for them.
type servers struct {
	lines   *line.Lines
	encoder *wire.Encoder
	now     func() time.Time // set by tests; nil: the server's clock decides
}

// instant returns the instant at which scripts decide; 0: they read the server's clock.
func (s *servers) instant() int64 {
	if s.now == nil {
		return 0
	}
	return s.now().UnixMicro()
}

// errand returns an errand. Its weight is in keys.
func (s *servers) errand(
	ctx context.Context, script *line.Script, key string, weight int, most int64, args ...any,
) *line.Errand {
	e := line.NewErrand(ctx, script, key, most, args)
	e.Instant, e.Weight, e.MayWait = s.instant(), weight, script == &settleScript
	return e
}

// settling returns the errand of an ending.
func (s *servers) settling(ctx context.Context, e *wire.Ending) *line.Errand {
	return s.errand(ctx, &settleScript, e.Name, e.Encoded.EndsWeight, e.Most(), e.Arguments()...)
}
