// What an application does with the official Go client, against the server at MAINSTEM_URL. Prints the results as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	streams "github.com/durable-streams/durable-streams/packages/client-go"
)

var root = os.Getenv("MAINSTEM_URL") + "/v1/stream/go"

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func create(ctx context.Context, client *streams.Client, name, contentType string) *streams.Stream {
	stream := client.Stream(root + "/" + name)
	must(stream.Create(ctx, streams.WithContentType(contentType)))
	return stream
}

// follow sends each item that it reads, until the stream is closed or, without live mode, until it has read everything.
func follow(ctx context.Context, stream *streams.Stream, live streams.LiveMode) <-chan any {
	items := make(chan any)
	go func() {
		defer close(items)
		chunks := stream.Read(ctx, streams.WithLive(live))
		defer chunks.Close()
		for {
			chunk, err := chunks.Next()
			if errors.Is(err, streams.Done) {
				return
			}
			must(err)
			var batch []any
			if len(chunk.Data) > 0 {
				must(json.Unmarshal(chunk.Data, &batch))
			}
			for _, item := range batch {
				items <- item
			}
			if chunk.StreamClosed { // over SSE this client continues after the end of the stream
				return
			}
		}
	}()
	return items
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	client := streams.NewClient()
	seen := map[string]any{}

	// Append and read
	plain := create(ctx, client, "plain", "text/plain")
	_, err := plain.Append(ctx, []byte("grüße "), streams.WithSeq("1"))
	must(err)
	_, err = plain.Append(ctx, []byte("zwei"), streams.WithSeq("2"))
	must(err)
	text := ""
	chunks := plain.Read(ctx)
	for {
		chunk, err := chunks.Next()
		if errors.Is(err, streams.Done) {
			break
		}
		must(err)
		text += string(chunk.Data)
	}
	seen["text"] = text
	_, err = plain.Append(ctx, []byte("drei"), streams.WithSeq("1"))
	seen["conflict"] = errors.Is(err, streams.ErrSeqConflict)
	_, err = client.Stream(root + "/missing").Head(ctx)
	seen["missing"] = errors.Is(err, streams.ErrStreamNotFound)

	// A producer with batches, and one that takes over
	produced := create(ctx, client, "produced", "application/json")
	produce := func(epoch int, from, until int) error {
		config := streams.DefaultIdempotentProducerConfig()
		config.Epoch, config.ContentType = epoch, "application/json"
		var failure error
		config.OnError = func(err error) { failure = err }
		producer, err := client.IdempotentProducer(produced.URL(), "producer", config)
		must(err)
		for number := from; number < until; number++ {
			must(producer.Append(fmt.Sprint(number)))
		}
		if err := producer.Flush(ctx); failure == nil {
			failure = err
		}
		producer.Close()
		return failure
	}
	must(produce(0, 0, 200))
	must(produce(1, 200, 201))
	var stale *streams.StaleEpochError
	seen["fenced"] = errors.As(produce(0, -1, 0), &stale)
	numbers := []any{}
	for item := range follow(ctx, produced, streams.LiveModeNone) {
		numbers = append(numbers, item)
	}
	seen["produced"] = numbers

	// Following, and a close that followers see
	for name, live := range map[string]streams.LiveMode{"sse": streams.LiveModeSSE, "long-poll": streams.LiveModeLongPoll} {
		stream := create(ctx, client, name, "application/json")
		_, err = stream.Append(ctx, []byte(`"before"`))
		must(err)
		items := follow(ctx, stream, live)
		found := []any{<-items}
		_, err = stream.Append(ctx, []byte(`"during"`))
		must(err)
		found = append(found, <-items)
		_, err = stream.Close(ctx, streams.WithCloseData([]byte(`"after"`)))
		must(err)
		for item := range items {
			found = append(found, item)
		}
		seen[name] = found
		_, err = stream.Append(ctx, []byte(`"late"`))
		seen["refused-"+name] = errors.Is(err, streams.ErrStreamClosed)
	}
	must(json.NewEncoder(os.Stdout).Encode(seen))
}
