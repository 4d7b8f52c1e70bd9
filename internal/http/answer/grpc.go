package answer

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// grpcTypes are the media types of gRPC and gRPC-Web. A suffix such as "+proto" may follow.
var grpcTypes = [...]string{"application/grpc", "application/grpc-web", "application/grpc-web-text"}

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

// IsGRPC reports whether r is a call of gRPC, which needs HTTP/2, or of gRPC-Web. Its client takes an
// answer of another kind for UNAVAILABLE, INTERNAL or UNKNOWN, whatever the status is.
func IsGRPC(r *http.Request) bool {
	media := grpcMedia(r)
	return media != "" && (r.ProtoMajor >= 2 || media != grpcTypes[0])
}

// AsksByGRPC reports whether r is a call of gRPC, if its version of HTTP is not known.
func AsksByGRPC(r *http.Request) bool { return grpcMedia(r) == grpcTypes[0] }

// GRPCStatus returns the status of HTTP of the denial of a call, whose status is otherwise status.
// Clients of gRPC-Web read the code beside a status of HTTP, so theirs stays: a request over HTTP/1.1
// that names this media type is not taken for an allowed one.
func GRPCStatus(r *http.Request, status int) int {
	if AsksByGRPC(r) {
		return http.StatusOK
	}
	return status
}

// grpcMedia returns the media type of a call of gRPC or gRPC-Web, or "".
func grpcMedia(r *http.Request) string {
	if r.Method != http.MethodPost {
		return ""
	}
	v := r.Header["Content-Type"]
	if len(v) == 0 || !strings.HasPrefix(v[0], grpcTypes[0]) {
		return ""
	}
	media := v[0]
	if end := strings.IndexAny(media, "+;"); end >= 0 {
		media = media[:end]
	}
	if i := slices.Index(grpcTypes[:], media); i >= 0 {
		return grpcTypes[i] // and not a part of what the client sent
	}
	return ""
}

// GRPC is the denial of a call of gRPC or gRPC-Web.
type GRPC struct {
	Status  int           // 429 or 503
	Message []byte        // a sentence
	Wait    time.Duration // until the call may be repeated; 0: no wait helps
	TooLong bool          // Wait is above headers.Options.MaxRetryAfter
}

// WriteGRPC answers the call r, with the status of GRPCStatus: clients of gRPC read the code alone.
func WriteGRPC(w http.ResponseWriter, r *http.Request, g GRPC) {
	SetGRPC(w.Header(), r, g)
	w.WriteHeader(GRPCStatus(r, g.Status))
}

// SetGRPC sets the fields of the answer to the call r in h.
func SetGRPC(h http.Header, r *http.Request, g GRPC) {
	code := grpcUnavailable
	if g.Status == http.StatusTooManyRequests {
		code = grpcResourceExhausted
	}
	h["Content-Type"] = []string{grpcMedia(r)}
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
