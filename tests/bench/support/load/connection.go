package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	dialTimeout   = 30 * time.Second
	answerTimeout = 60 * time.Second
	// Of a request frame: 4 bytes of length, 2 of the API's key and 2 of its version.
	correlationAt = 8
	// Of a response frame: 4 bytes of length, then the correlation id.
	responseStart = 8
)

// A connection asks and waits, or repeats one frame as fast as it is answered.
type connection struct {
	socket      net.Conn
	reader      *bufio.Reader
	format      *kmsg.RequestFormatter
	correlation int32
}

func dial(bootstrap, clientID string) (*connection, error) {
	socket, err := net.DialTimeout("tcp", bootstrap, dialTimeout)
	if err != nil {
		return nil, err
	}
	return &connection{
		socket: socket,
		reader: bufio.NewReaderSize(socket, 16<<10),
		format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)),
	}, nil
}

// ask sends a request and reads its answer.
func (c *connection) ask(request kmsg.Request) (kmsg.Response, error) {
	if _, err := c.socket.Write(c.encode(request)); err != nil {
		return nil, err
	}
	if err := c.socket.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		return nil, err
	}
	frame, err := c.readFrame()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kmsg.NameForKey(request.Key()), err)
	}
	return decode(frame, request)
}

func (c *connection) encode(request kmsg.Request) []byte {
	c.correlation++
	return c.format.AppendRequest(nil, request, c.correlation)
}

func (c *connection) readFrame() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(c.reader, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(length[:]))
	copy(frame, length[:])
	_, err := io.ReadFull(c.reader, frame[4:])
	return frame, err
}

func decode(frame []byte, request kmsg.Request) (kmsg.Response, error) {
	response := request.ResponseKind()
	body := frame[responseStart:]
	if request.IsFlexible() {
		body = body[1:] // the header's tagged fields, of which there are none
	}
	return response, response.ReadFrom(body)
}

// repeat keeps so many copies of the request in flight until the meter says stop. Each is as long as the first answer,
// which isGood has passed; those that differ from it in more than the correlation id count as refused.
func (c *connection) repeat(request repeated, inflight int, m *meter) error {
	good, err := c.firstAnswer(request)
	if err != nil {
		return err
	}
	if err := c.socket.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	batch := c.newBatch(request, inflight)
	sent := newTimes(inflight)
	held := make([]byte, 0, 64<<10+len(good))
	missing, due := 0, inflight
	for {
		if due > 0 && !m.isStopping() {
			if _, err := c.socket.Write(batch.take(c, due)); err != nil {
				return err
			}
			sent.push(time.Now(), due)
			missing += due
		}
		if missing == 0 {
			return nil
		}
		n, err := c.socket.Read(held[len(held):cap(held)])
		if err != nil {
			return fmt.Errorf("%s: %w", kmsg.NameForKey(request.request.Key()), err)
		}
		held = held[:len(held)+n]
		answers, refused, err := countAnswers(held, good)
		if err != nil {
			return fmt.Errorf("%s: %w", kmsg.NameForKey(request.request.Key()), err)
		}
		m.note(sent, answers, refused)
		held = held[:copy(held, held[answers*len(good):])]
		missing -= answers
		due = answers
	}
}

func (c *connection) firstAnswer(request repeated) ([]byte, error) {
	if _, err := c.socket.Write(c.encode(request.request)); err != nil {
		return nil, err
	}
	frame, err := c.readFrame()
	if err != nil {
		return nil, err
	}
	response, err := decode(frame, request.request)
	if err != nil {
		return nil, err
	}
	return frame, request.isGood(response)
}

// countAnswers holds every whole answer against the good one: how many there are, and how many of them differ.
func countAnswers(held, good []byte) (answers, refused int, err error) {
	for ; len(held) >= len(good); held = held[len(good):] {
		if !bytes.Equal(held[:4], good[:4]) {
			return 0, 0, fmt.Errorf("an answer of another length than before: %x, not %x", held[:len(good)], good)
		}
		if !bytes.Equal(held[responseStart:len(good)], good[responseStart:]) {
			refused++
		}
		answers++
	}
	return answers, refused, nil
}

// A repeated request is encoded once. Wherever it says varyingOffset, each copy has another number: no two commits of
// a client are the same.
type repeated struct {
	request kmsg.Request
	isGood  func(kmsg.Response) error
}

const varyingOffset = 0x0123_4567_89ab_cdef

// A batch is room for as many copies of a request as may be in flight.
type batch struct {
	frames  []byte
	size    int
	varying []int // where in a frame
	offset  uint64
}

func (c *connection) newBatch(request repeated, inflight int) *batch {
	frame := c.encode(request.request)
	b := &batch{frames: bytes.Repeat(frame, inflight), size: len(frame)}
	mark := binary.BigEndian.AppendUint64(nil, varyingOffset)
	for at := bytes.Index(frame, mark); at >= 0; {
		b.varying = append(b.varying, at)
		next := bytes.Index(frame[at+len(mark):], mark)
		if next < 0 {
			break
		}
		at += len(mark) + next
	}
	return b
}

// take is the next so many frames, good until the next call.
func (b *batch) take(c *connection, count int) []byte {
	for index := range count {
		frame := b.frames[index*b.size:]
		c.correlation++
		binary.BigEndian.PutUint32(frame[correlationAt:], uint32(c.correlation))
		b.offset++
		for _, at := range b.varying {
			binary.BigEndian.PutUint64(frame[at:], b.offset)
		}
	}
	return b.frames[:count*b.size]
}
