// franz-go as a program: the same command line as ../command_line.py, the same files and digests as ../records.py.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"hash"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("say produce, consume or group"))
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	bootstrap := flags.String("bootstrap", "", "")
	topic := flags.String("topic", "", "")
	codec := flags.String("codec", "none", "")
	records := flags.String("records", "", "")
	counts := flags.String("counts", "", "")
	group := flags.String("group", "", "")
	seconds := flags.Float64("seconds", 0, "")
	check(flags.Parse(os.Args[2:]))

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	switch os.Args[1] {
	case "produce":
		check(produce(ctx, *bootstrap, *topic, codecs[*codec], *records))
	case "consume":
		check(consume(ctx, *bootstrap, *topic, *counts))
	case "group":
		check(joinGroup(ctx, *bootstrap, *topic, *group, time.Duration(*seconds*float64(time.Second))))
	default:
		fail(fmt.Errorf("no such verb: %s", os.Args[1]))
	}
}

func produce(ctx context.Context, bootstrap, topic string, codec kgo.CompressionCodec, path string) error {
	stored, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	// Idempotent writes are kgo's default; there is only an option to turn them off.
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(codec),
		kgo.ProducerLinger(20*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	var first kgo.FirstErrPromise
	for file := (&reader{stored}); len(file.left) > 0; {
		record := file.record()
		record.Topic = topic
		client.Produce(ctx, record, first.Promise())
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	return first.Err()
}

func consume(ctx context.Context, bootstrap, topic, counts string) error {
	var seen []*digest
	offsets := map[int32]kgo.Offset{}
	left := 0
	for partition, text := range strings.Split(counts, ",") {
		count, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		seen = append(seen, &digest{contents: sha256.New(), timestamps: sha256.New()})
		if count > 0 {
			offsets[int32(partition)] = kgo.NewOffset().At(0)
		}
		left += count
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("%d records did not come: %w", left, err)
		}
		fetches.EachRecord(func(record *kgo.Record) { seen[record.Partition].add(record) })
		left -= fetches.NumRecords()
	}
	summaries := []map[string]any{}
	for _, each := range seen {
		summaries = append(summaries, map[string]any{
			"records":    each.records,
			"contents":   hex.EncodeToString(each.contents.Sum(nil)),
			"timestamps": hex.EncodeToString(each.timestamps.Sum(nil)),
		})
	}
	return json.NewEncoder(os.Stdout).Encode(summaries)
}

func joinGroup(ctx context.Context, bootstrap, topic, group string, stay time.Duration) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for end := time.Now().Add(stay); time.Now().Before(end); {
		pollCtx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		fetches := client.PollFetches(pollCtx)
		cancel()
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
	}
	return client.LeaveGroupContext(ctx)
}

// What was read from one partition so far.
type digest struct {
	records    int
	contents   hash.Hash
	timestamps hash.Hash
	scratch    []byte
}

func (d *digest) add(record *kgo.Record) {
	d.records++
	d.scratch = binary.BigEndian.AppendUint64(d.scratch[:0], uint64(record.Offset))
	d.scratch = appendBytes(d.scratch, record.Key)
	d.scratch = appendBytes(d.scratch, record.Value)
	d.scratch = binary.BigEndian.AppendUint32(d.scratch, uint32(len(record.Headers)))
	for _, header := range record.Headers {
		d.scratch = appendBytes(d.scratch, []byte(header.Key))
		d.scratch = appendBytes(d.scratch, header.Value)
	}
	d.contents.Write(d.scratch)
	d.timestamps.Write(binary.BigEndian.AppendUint64(d.scratch[:0], uint64(record.Timestamp.UnixMilli())))
}

func appendBytes(to []byte, content []byte) []byte {
	if content == nil {
		return binary.BigEndian.AppendUint32(to, 0xFFFFFFFF)
	}
	return append(binary.BigEndian.AppendUint32(to, uint32(len(content))), content...)
}

// Reads a file of records from its front.
type reader struct{ left []byte }

func (r *reader) record() *kgo.Record {
	record := &kgo.Record{Partition: r.int32()}
	record.Timestamp = time.UnixMilli(int64(binary.BigEndian.Uint64(r.take(8))))
	record.Key, record.Value = r.bytes(), r.bytes()
	for count := r.int32(); count > 0; count-- {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: string(r.bytes()), Value: r.bytes()})
	}
	return record
}

func (r *reader) int32() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }

func (r *reader) bytes() []byte {
	length := r.int32()
	if length < 0 {
		return nil
	}
	return r.take(int(length))
}

func (r *reader) take(length int) []byte {
	taken := r.left[:length:length]
	r.left = r.left[length:]
	return taken
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
