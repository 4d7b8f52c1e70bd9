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
	read, ok := readable(nil, data.Materialize(), m.ProtoReflect().Descriptor(), 0)
	if !ok || proto.Unmarshal(read, m) != nil {
		return err
	}
	return nil
}

// deepest is how many messages inside each other are read. Those of Envoy have few.
const deepest = 100

// readable appends message b of a type, with readable texts. It returns false if b is no message,
// or too deep inside others.
func readable(to, b []byte, of protoreflect.MessageDescriptor, depth int) ([]byte, bool) {
	if depth > deepest {
		return to, false
	}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return to, false
		}
		field := of.Fields().ByNumber(number)
		if kind != protowire.BytesType || field == nil {
			m := protowire.ConsumeFieldValue(number, kind, b[n:])
			if m < 0 {
				return to, false
			}
			to, b = append(to, b[:n+m]...), b[n+m:]
			continue
		}
		value, m := protowire.ConsumeBytes(b[n:])
		if m < 0 {
			return to, false
		}
		b = b[n+m:]
		switch field.Kind() {
		case protoreflect.StringKind:
			value = inUTF8(value)
		case protoreflect.MessageKind:
			var ok bool
			if value, ok = readable(nil, value, field.Message(), depth+1); !ok {
				return to, false
			}
		}
		to = protowire.AppendBytes(protowire.AppendTag(to, number, kind), value)
	}
	return to, true
}

// inUTF8 returns a text with each byte that is no UTF-8 as the letter that it is in Latin-1.
func inUTF8(text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	read := make([]byte, 0, len(text)+8)
	for len(text) > 0 {
		letter, n := utf8.DecodeRune(text)
		if letter == utf8.RuneError && n == 1 {
			letter = rune(text[0])
		}
		read, text = utf8.AppendRune(read, letter), text[n:]
	}
	return read
}
