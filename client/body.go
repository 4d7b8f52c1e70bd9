package client

import (
	"io"
	"net/http"
	"sync"
)

// endWithBody ends c when the body of its answer is read or closed.
func (t *Transport) endWithBody(c *call, response *http.Response) {
	if c.stage == idle {
		return
	}
	if response.Body == nil || response.Body == http.NoBody {
		t.end(c)
		return
	}
	ends := *c
	c.stage, c.finish = idle, nil // the body ends it from now on
	body := &countedBody{ReadCloser: response.Body, done: sync.OnceFunc(func() { t.end(&ends) })}
	response.Body = body
	if w, ok := body.ReadCloser.(io.Writer); ok { // 101 Switching Protocols
		response.Body = &writableBody{body, w}
	}
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
