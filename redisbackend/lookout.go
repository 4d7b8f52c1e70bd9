package redisbackend

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/redisbackend/internal/line"
)

// lookout finds, while requests come, what Check finds when it is called: a proxy that spreads what
// one server has to decide. Decisions then fail until one server answers alone. For example a
// balancer sends each connection to the next of two servers, A and B:
//
//	  0 s   New
//	 60 s   the next request begins a question in the background: which server answers for
//	        sixteen names, on four connections? AAAA BBBB AAAA BBBB
//	        More than one, so it asks on sixteen connections more. A is back: no failover
//	 60 s   decisions fail. The breaker opens, and the failure policy of each rule decides
//	120 s   the next request, such as a probe of the breaker, begins a question: twenty connections.
//	        If one server gives all answers, decisions go to it again
type lookout struct {
	connect func() (ask asker, end func())
	names   []string
	advice  string        // if the server depends on the name
	logger  *slog.Logger  // nil: that of slog.Default
	timeout time.Duration // lookTimeout; tests are more patient

	sight atomic.Pointer[sight]

	mu      sync.Mutex
	closed  bool
	timer   *time.Timer
	cancel  context.CancelFunc // ends the question under way
	stopped chan struct{}      // closed when no question is under way

	latest string // id of the server that answered last; of the question under way
}

// asker returns the id of the server that answers for each of some names, on one new connection.
// It is "" if the server has none.
type asker func(ctx context.Context, names ...string) (ids []string, err error)

// sight is what a lookout has seen. It is immutable.
type sight struct {
	err error // what spreads; nil: nothing
	due bool  // the next request begins a question
}

const (
	// lookEvery is the time from the end of one question to the next.
	lookEvery = time.Minute

	// fewConnections is how many connections are opened if all is well.
	fewConnections = 4

	// lookTimeout is how long the answers of one question may take.
	lookTimeout = 10 * line.CallTimeout
)

// newLookout returns a lookout for the client of one server; nil for others, which know their
// servers. key is a name under the prefix of a backend.
func newLookout(client redis.Scripter, key string, logger *slog.Logger) *lookout {
	single, ok := client.(line.Single)
	if !ok {
		return nil
	}
	advice := spreadNames
	if strings.Contains(key, "{") {
		advice = ignoredTags
	}
	l := &lookout{
		connect: func() (asker, func()) { return connections(single) },
		names:   namesOf(key + ":"), advice: advice, logger: logger,
	}
	l.start()
	return l
}

func (l *lookout) start() {
	l.timeout = lookTimeout
	l.stopped = make(chan struct{})
	close(l.stopped)
	l.sight.Store(new(sight))
	l.timer = time.AfterFunc(lookEvery, l.fallDue)
}

// connections returns a function that asks on a new connection each time, and one that closes them.
// They are not of the client's pool, so no decision waits for them. All stay open until the end: a
// balancer may choose the server with the fewest.
func connections(single line.Single) (ask asker, end func()) {
	o := *single.Options()
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = fewConnections+questions, 0, 0, 0
	o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries = true, -1, 1
	o.DisableIdentity, o.MaintNotificationsConfig = true, unasked() // as the user may not send that
	own := redis.NewClient(&o)
	var conns []*redis.Conn
	ask = func(ctx context.Context, names ...string) ([]string, error) {
		conn := own.Conn()
		conns = append(conns, conn)
		return serversOf(ctx, conn, names...)
	}
	return ask, func() {
		for _, conn := range conns {
			conn.Close()
		}
		own.Close()
	}
}

// spreads returns an error if what one server has to decide is spread over several. It begins a
// question if one is due, and never waits.
func (l *lookout) spreads() error {
	if l == nil {
		return nil
	}
	s := l.sight.Load()
	if s.due {
		l.begin(s)
	}
	return s.err
}

// fallDue has the next request begin a question.
func (l *lookout) fallDue() { l.sight.Store(&sight{err: l.sight.Load().err, due: true}) }

// begin begins a question, unless another request has done so.
func (l *lookout) begin(s *sight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.sight.CompareAndSwap(s, &sight{err: s.err}) || l.closed {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	l.cancel, l.stopped = cancel, make(chan struct{})
	go l.look(ctx, l.stopped, s.err)
}

// look asks, and has the next question fall due later. known is what has been seen before.
func (l *lookout) look(ctx context.Context, stopped chan struct{}, known error) {
	isLast := false
	defer func() {
		_ = recover() // a hook of the client may panic, or end this goroutine
		l.mu.Lock()
		defer l.mu.Unlock()
		l.cancel()
		if !isLast && !l.closed {
			l.timer.Reset(lookEvery)
		}
		close(stopped)
	}()
	ask, end := l.connect()
	defer end()
	q := question{ask: ask, names: l.names, byName: make(map[string]string)}
	seen := l.judge(ctx, &q, known)
	if isLast = q.refused; isLast {
		seen = nil
	}
	l.sight.Store(&sight{err: seen})
	switch {
	case known == nil && seen != nil:
		l.log(slog.LevelWarn, "weir: a proxy spreads what one Redis server has to decide", "error", seen)
	case known != nil && seen == nil:
		l.log(slog.LevelInfo, "weir: one Redis server decides alone again")
	}
}

func (l *lookout) log(level slog.Level, message string, attrs ...any) {
	logger := l.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Log(context.Background(), level, message, attrs...)
}

// judge asks q and returns an error if several servers answer in turn.
func (l *lookout) judge(ctx context.Context, q *question, known error) error {
	if known != nil { // a few answers may be of one server by chance
		ids := differing(append(q.few(ctx), q.many(ctx)...))
		if len(ids) != 1 || q.failed {
			return known
		}
		l.latest = ids[0]
		return nil
	}
	first := append([]string{l.latest}, q.few(ctx)...)
	again := func() ([]string, error) { return q.many(ctx), nil }
	n := spreadOver(first, again)
	if q.latest != "" {
		l.latest = q.latest
	}
	switch {
	case n == 0:
		return nil
	case q.byConnection:
		return fmt.Errorf("redisbackend: "+spreadConnections, n)
	}
	return fmt.Errorf("redisbackend: "+l.advice, n)
}

// close ends the question under way, and lets no other begin.
func (l *lookout) close(ctx context.Context) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.closed = true
	l.timer.Stop()
	if l.cancel != nil {
		l.cancel()
	}
	stopped := l.stopped
	l.mu.Unlock()
	select {
	case <-stopped:
	case <-ctx.Done(): // a hook of the client hangs
	}
}

// question asks which server answers for some names.
type question struct {
	ask   asker
	names []string // as many as questions

	latest       string            // id
	byName       map[string]string // the id that answered first
	byConnection bool              // one name was answered by several
	inCluster    bool              // only the first name counts
	failed       bool              // an answer is missing
	refused      bool              // the user may not ask, or the server has no id
}

// few asks for all names, on a few connections.
func (q *question) few(ctx context.Context) (ids []string) {
	for part := range slices.Chunk(q.names, questions/fewConnections) {
		ids = append(ids, q.put(ctx, part...)...)
	}
	return ids
}

// many asks for all names on a connection each, and each time for the first name, too: if several
// answer for that, it depends on the connection.
func (q *question) many(ctx context.Context) (ids []string) {
	for _, name := range q.names {
		ids = append(ids, q.put(ctx, q.names[0], name)...)
	}
	return ids
}

// put asks for names on a connection. In a Cluster it asks for the first name of all alone: a proxy
// that knows the Cluster sends each name to its master.
func (q *question) put(ctx context.Context, names ...string) (counted []string) {
	if q.refused || ctx.Err() != nil {
		q.failed = true
		return nil
	}
	if q.inCluster {
		names = q.names[:1]
	}
	ids, err := q.ask(ctx, names...)
	if err != nil {
		q.refused, q.failed = isForbidden(err), true
		return nil
	}
	for i, id := range ids {
		q.refused = q.refused || id == ""
		if q.inCluster = strings.HasSuffix(id, ofCluster); q.inCluster && names[i] != q.names[0] {
			continue
		}
		if first, ok := q.byName[names[i]]; !ok {
			q.byName[names[i]] = id
		} else if id != first {
			q.byConnection = true
		}
		q.latest = id
		counted = append(counted, id)
	}
	return counted
}
