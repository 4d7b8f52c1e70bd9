package envoy

import (
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// tolerant is the codec of gRPC, which also reads messages whose texts are not UTF-8. A header
// field or a path may have any bytes, and proxies put them into texts as they are. grpc-go refuses
// such a message, and a proxy that fails open then lets the request pass all limits.
type tolerant struct{ encoding.CodecV2 }

// Unmarshal reads data into a message. If that fails, it tries once more, with each byte that is no
// UTF-8 as the letter that it is in Latin-1.
func (c tolerant) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	m, ok := v.(proto.Message)
	if err == nil || !ok {
		return err
	}
	b := data.Materialize()
	read, ok := readable(make([]byte, 0, 2*len(b)), b, m.ProtoReflect().Descriptor(), 0)
	if !ok || proto.Unmarshal(read, m) != nil {
		return err
	}
	return nil
}

// deepest is how many messages inside each other are read. Those of Envoy have few.
const deepest = 100

// readable appends message b of a type, with readable texts: at most twice the bytes of b. It
// returns false if b is no message, or too deep inside others.
func readable(to, b []byte, of protoreflect.MessageDescriptor, depth int) ([]byte, bool) {
	if depth > deepest {
		return to, false
	}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return to, false
		}
		m := protowire.ConsumeFieldValue(number, kind, b[n:])
		if m < 0 {
			return to, false
		}
		field := of.Fields().ByNumber(number)
		isText := field != nil && field.Kind() == protoreflect.StringKind
		isMessage := field != nil && field.Kind() == protoreflect.MessageKind
		if kind != protowire.BytesType || !isText && !isMessage {
			to, b = append(to, b[:n+m]...), b[n+m:]
			continue
		}
		value, _ := protowire.ConsumeBytes(b[n:])
		b = b[n+m:]
		to = protowire.AppendTag(to, number, kind)
		// The length is known once the value is written, and is then at most twice what it was.
		at, width := len(to), protowire.SizeVarint(2*uint64(len(value)))
		to = append(to, make([]byte, width)...)
		if isText {
			to = appendUTF8(to, value)
		} else {
			var ok bool
			if to, ok = readable(to, value, field.Message(), depth+1); !ok {
				return to, false
			}
		}
		setVarint(to[at:at+width], len(to)-at-width)
	}
	return to, true
}

// setVarint writes n into all of b: a number may have more bytes than it needs.
func setVarint(b []byte, n int) {
	last := len(b) - 1
	for i := range last {
		b[i] = byte(n) | 0x80
		n >>= 7
	}
	b[last] = byte(n)
}

// appendUTF8 appends a text with each byte that is no UTF-8 as the letter that it is in Latin-1.
func appendUTF8(to, text []byte) []byte {
	if utf8.Valid(text) {
		return append(to, text...)
	}
	for len(text) > 0 {
		letter, n := utf8.DecodeRune(text)
		if letter == utf8.RuneError && n == 1 {
			letter = rune(text[0])
		}
		to, text = utf8.AppendRune(to, letter), text[n:]
	}
	return to
}
