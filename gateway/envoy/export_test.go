package envoy

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec
)

// Codec is the codec of the server.
var Codec encoding.CodecV2 = tolerant{encoding.GetCodecV2("proto")}
