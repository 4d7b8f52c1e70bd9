package client

import (
	"io"
	"net/http"
	"sync"
)

// counted returns a body that counts as under way until it is read or closed.
func (t *Transport) counted(c *call, response *http.Response) io.ReadCloser {
	b, end, status := c.bucket, c.end, response.StatusCode
	c.stage, c.end = idle, nil // from now on the body ends c
	body := &countedBody{ReadCloser: response.Body, done: sync.OnceFunc(func() {
		t.mu.Lock()
		b.busy--
		b.queue.wakeFirst()
		t.mu.Unlock()
		if end != nil {
			end(status)
		}
	})}
	if response.Body == nil || response.Body == http.NoBody {
		body.done()
		return response.Body
	}
	if w, ok := response.Body.(io.Writer); ok { // 101 Switching Protocols
		return &writableBody{body, w}
	}
	return body
}

type countedBody struct {
	io.ReadCloser
	done func()
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.done()
	}
	return n, err
}

func (b *countedBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

type writableBody struct {
	*countedBody
	io.Writer
}
