package answer

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// grpcType is the media type of gRPC. A suffix such as "+proto" may follow.
const grpcType = "application/grpc"

// Fields of gRPC. A client reads them in the header of an answer that has no body and no trailer:
// "Trailers-Only" in the protocol of gRPC over HTTP/2.
const (
	grpcStatus   = "Grpc-Status"
	grpcMessage  = "Grpc-Message"
	grpcPushback = "Grpc-Retry-Pushback-Ms" // gRFC A6
)

// Codes of gRPC, as text.
const (
	grpcResourceExhausted = "8"
	grpcUnavailable       = "14"
)

// IsGRPC reports whether r is a call of gRPC. Its client takes an answer that is not of gRPC for
// UNAVAILABLE or INTERNAL, whatever the status is. gRPC needs HTTP/2, and gRPC-Web is another
// protocol.
func IsGRPC(r *http.Request) bool { return r.ProtoMajor >= 2 && AsksByGRPC(r) }

// AsksByGRPC is IsGRPC for a request whose version of HTTP is not known.
func AsksByGRPC(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	v := r.Header["Content-Type"]
	if len(v) == 0 || !strings.HasPrefix(v[0], grpcType) {
		return false
	}
	rest := v[0][len(grpcType):]
	return rest == "" || rest[0] == '+' || rest[0] == ';'
}

// GRPC is the denial of a call of gRPC.
type GRPC struct {
	Status  int           // 429 or 503
	Message []byte        // a sentence
	Wait    time.Duration // until the call may be repeated; 0: no wait helps
	TooLong bool          // Wait is above headers.Options.MaxRetryAfter
}

// WriteGRPC answers the call r. The status of the answer is 200: clients of gRPC read the code alone.
func WriteGRPC(w http.ResponseWriter, r *http.Request, g GRPC) {
	SetGRPC(w.Header(), r, g)
	w.WriteHeader(http.StatusOK)
}

// SetGRPC sets the fields of the answer to the call r in h.
func SetGRPC(h http.Header, r *http.Request, g GRPC) {
	code := grpcUnavailable
	if g.Status == http.StatusTooManyRequests {
		code = grpcResourceExhausted
	}
	h["Content-Type"] = []string{grpcType}
	h["Cache-Control"] = []string{noStore}
	h[grpcStatus] = []string{code}
	h[grpcMessage] = []string{escapeGRPC(g.Message)}
	h[grpcPushback] = []string{Pushback(g.Wait, timeoutOf(r), g.TooLong)}
}

// NoDeadline is the time that is left of a call without a deadline.
const NoDeadline time.Duration = math.MaxInt64

// longestPushback is what clients of gRPC read: a number of milliseconds with 32 bits.
const longestPushback = math.MaxInt32 * time.Millisecond

// Pushback returns the field grpc-retry-pushback-ms of a denial, which tells the retries of a client
// when to repeat a call (gRFC A6): wait in milliseconds, rounded up. It returns -1, after which
// clients do not retry, if wait is 0, since no wait helps, and if wait is too long. A client that
// waits for longer than left, the time until the deadline of its call, loses the denial: it fails
// with DEADLINE_EXCEEDED. A client without a deadline blocks, so tooLong says that wait is above the
// bound of the program.
func Pushback(wait, left time.Duration, tooLong bool) string {
	if wait <= 0 || wait >= left || tooLong && left == NoDeadline || wait > longestPushback {
		return "-1"
	}
	return strconv.FormatInt(int64((wait+time.Millisecond-1)/time.Millisecond), 10)
}

// TimeLeft returns the time until the deadline of ctx, or NoDeadline.
func TimeLeft(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return NoDeadline
	}
	return time.Until(deadline)
}

// timeoutOf returns the grpc-timeout of r, or NoDeadline.
func timeoutOf(r *http.Request) time.Duration {
	v := r.Header["Grpc-Timeout"]
	if len(v) == 0 || len(v[0]) < 2 || len(v[0]) > 9 {
		return NoDeadline
	}
	last := len(v[0]) - 1
	n, err := strconv.ParseUint(v[0][:last], 10, 32)
	unit := units[v[0][last]]
	if err != nil || unit == 0 {
		return NoDeadline
	}
	if n > uint64(NoDeadline/unit) {
		return NoDeadline
	}
	return time.Duration(n) * unit
}

// units are the units of grpc-timeout.
var units = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second,
	'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// escapeGRPC returns message as grpc-message has it: percent-encoded, apart from printable ASCII.
func escapeGRPC(message []byte) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(message))
	for _, c := range message {
		if ' ' <= c && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
