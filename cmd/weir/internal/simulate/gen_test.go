package simulate_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// generate writes a log of n lines in the combined format: requests of so many clients, some
// of which ask for much more than others, in a day.
func generate(w io.Writer, n, clients int, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	b := bufio.NewWriterSize(w, 1<<20)
	defer b.Flush()
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	line := make([]byte, 0, 256)
	for i := range n {
		c := random.IntN(clients)
		if i%4 == 0 { // a quarter of the requests are of a few clients
			c = min(c, random.IntN(1+clients/1000))
		}
		at := start.Add(time.Duration(int64(24*time.Hour) / int64(n) * int64(i)))
		line = fmt.Appendf(line[:0], "%d.%d.%d.%d - - [%s] \"GET /articles/%d?page=%d HTTP/1.1\" 200 %d "+
			"\"https://example.com/\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "+
			"Chrome/120.0 Safari/537.36\"\n",
			11+c>>24, c>>16&255, c>>8&255, c&255, at.Format("02/Jan/2006:15:04:05 -0700"), i%997, i%13, 500+i%9000)
		b.Write(line)
	}
}
