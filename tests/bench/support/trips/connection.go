package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	answerTimeout = 60 // seconds
	// Of a request: 4 bytes of length, 2 of the API's key and 2 of its version.
	correlationAt = 8
	// Of an answer: 4 bytes of length, then the correlation id.
	answerStart = 8
)

// A connection has one request in flight, or none.
type connection struct {
	file        *os.File // keeps the socket open
	fd          int
	frame       []byte
	correlation uint32
	answer      []byte // the last one; all are as long as the first
	first       []byte
	isConstant  bool
}

// dial connects and has the frame answered once, which tells how long answers are.
func dial(w way, isConstant bool) (*connection, error) {
	socket, err := net.Dial("tcp", w.Address)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	file, err := socket.(*net.TCPConn).File()
	if err != nil {
		return nil, err
	}
	c := &connection{file: file, fd: int(file.Fd()), frame: bytes.Clone(w.Frame), isConstant: isConstant}
	if err := syscall.SetNonblock(c.fd, false); err != nil {
		return nil, err
	}
	patience := syscall.Timeval{Sec: answerTimeout}
	if err := syscall.SetsockoptTimeval(c.fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &patience); err != nil {
		return nil, err
	}
	return c, c.askFirst()
}

func (c *connection) askFirst() error {
	if err := c.send(); err != nil {
		return err
	}
	c.answer = make([]byte, 4)
	if err := c.receive(); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(c.answer)
	body := &connection{fd: c.fd, answer: make([]byte, length)}
	if err := body.receive(); err != nil {
		return err
	}
	c.answer = append(c.answer, body.answer...)
	c.first = bytes.Clone(c.answer)
	return c.check()
}

// repeat asks as often as there is room for latencies.
func (c *connection) repeat(latencies []time.Duration) error {
	for index := range latencies {
		began := time.Now()
		if err := c.send(); err != nil {
			return err
		}
		if err := c.receive(); err != nil {
			return err
		}
		latencies[index] = time.Since(began)
		if err := c.check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *connection) send() error {
	c.correlation++
	binary.BigEndian.PutUint32(c.frame[correlationAt:], c.correlation)
	for rest := c.frame; len(rest) > 0; {
		n, err := syscall.Write(c.fd, rest)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func (c *connection) receive() error {
	for rest := c.answer; len(rest) > 0; {
		n, err := syscall.Read(c.fd, rest)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("no answer: %w", err)
		}
		if n == 0 {
			return errors.New("hung up")
		}
		rest = rest[n:]
	}
	return nil
}

// check holds the answer against the request, and against the first one.
func (c *connection) check() error {
	if told := binary.BigEndian.Uint32(c.answer[4:]); told != c.correlation {
		return fmt.Errorf("an answer to request %d, where that to %d was due", told, c.correlation)
	}
	if !bytes.Equal(c.answer[:4], c.first[:4]) {
		return errors.New("an answer of another length than the first")
	}
	if c.isConstant && !bytes.Equal(c.answer[answerStart:], c.first[answerStart:]) {
		return errors.New("an answer that differs from the first")
	}
	return nil
}
