// Package seal compresses with zstd and encrypts with age, as streams of bounded memory. What it writes is read by hand
// with `age -d -i KEY | zstd -d`. It knows neither stores nor PostgreSQL.
//
// Start reading at Keys.
package seal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

// ErrKeyWrong means that none of the keys opens an object.
var ErrKeyWrong = errors.New("none of the keys opens it")

// ErrDamaged means that an object is not what was written.
var ErrDamaged = errors.New("it is damaged")

// Suffixes of sealed objects.
const (
	Compressed = ".zst"
	encrypted  = ".age"
)

// Keys are the keys of a repository. New objects are encrypted to the first; all of them are tried for reading, so that
// a key can be replaced while objects of the old one are still needed. No keys at all: objects are only compressed.
type Keys struct {
	identities []age.Identity
	recipient  age.Recipient
}

// ParseKeys reads keys as age-keygen writes them. Empty text gives no keys.
func ParseKeys(text string) (Keys, error) {
	if strings.TrimSpace(text) == "" {
		return Keys{}, nil
	}
	identities, err := age.ParseIdentities(strings.NewReader(text))
	if err != nil {
		return Keys{}, fmt.Errorf("understand the keys: %w", err)
	}
	keys := Keys{identities: identities}
	switch first := identities[0].(type) {
	case *age.X25519Identity:
		keys.recipient = first.Recipient()
	case *age.HybridIdentity:
		keys.recipient = first.Recipient()
	default:
		return Keys{}, fmt.Errorf("understand the keys: a key of kind %T cannot be written to", first)
	}
	return keys, nil
}

// NewKey makes a key, as age-keygen writes it.
func NewKey() (string, error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	return identity.String(), nil
}

// Suffix is how names of new objects end.
func (k Keys) Suffix() string {
	if k.recipient == nil {
		return Compressed
	}
	return Compressed + encrypted
}

// window bounds the memory of both sides.
const window = 1 << 20

// Seal gives the content compressed and encrypted. It reads as it is read, and starts no goroutine.
func (k Keys) Seal(content io.Reader) (io.Reader, error) {
	sealed := &sealer{from: content, piece: make([]byte, 128<<10)}
	var target io.Writer = &sealed.ready
	if k.recipient != nil {
		writer, err := age.Encrypt(&sealed.ready, k.recipient)
		if err != nil {
			return nil, fmt.Errorf("encrypt: %w", err)
		}
		sealed.encrypter, target = writer, writer
	}
	compressor, err := zstd.NewWriter(target, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	sealed.compressor = compressor
	return sealed, nil
}

// sealer seals as much as is asked for.
type sealer struct {
	from       io.Reader
	piece      []byte
	compressor *zstd.Encoder
	encrypter  io.Closer
	ready      bytes.Buffer
	err        error
}

func (s *sealer) Read(buffer []byte) (int, error) {
	for s.ready.Len() == 0 && s.err == nil {
		s.fill()
	}
	if s.ready.Len() > 0 {
		return s.ready.Read(buffer)
	}
	return 0, s.err
}

func (s *sealer) fill() {
	count, err := s.from.Read(s.piece)
	if _, problem := s.compressor.Write(s.piece[:count]); problem != nil {
		err = problem
	}
	switch {
	case errors.Is(err, io.EOF):
		s.err = s.compressor.Close()
		if s.err == nil && s.encrypter != nil {
			s.err = s.encrypter.Close()
		}
		if s.err == nil {
			s.err = io.EOF
		}
	case err != nil:
		s.err = err
	}
}

// Open gives the content of an object by its name. An error that is neither ErrKeyWrong nor ErrDamaged is one of the
// reader below.
func (k Keys) Open(name string, object io.Reader) (io.ReadCloser, error) {
	below := &source{from: object}
	plain := below
	var content io.Reader = below
	if strings.HasSuffix(name, encrypted) {
		if len(k.identities) == 0 {
			return nil, fmt.Errorf("open %s: %w: it is encrypted, and there are no keys", name, ErrKeyWrong)
		}
		decrypted, err := age.Decrypt(below, k.identities...)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", name, below.blame(err))
		}
		// zstd takes a stream that ends before its first byte for an empty one, however it ends.
		plain = &source{from: decrypted}
		content = plain
	}
	decompressor, err := zstd.NewReader(content, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(8*window))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, below.blame(err))
	}
	return &opener{name: name, source: below, plain: plain, decompressor: decompressor}, nil
}

// source remembers whether it was the object that could not be read.
type source struct {
	from io.Reader
	err  error
}

func (s *source) Read(buffer []byte) (int, error) {
	count, err := s.from.Read(buffer)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return count, err
}

// blame tells a damaged object from one that could not be read, and both from a wrong key.
func (s *source) blame(err error) error {
	var mismatch *age.NoIdentityMatchError
	switch {
	case s.err != nil:
		return s.err
	case errors.As(err, &mismatch):
		return ErrKeyWrong
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

type opener struct {
	name          string
	source, plain *source
	decompressor  *zstd.Decoder
}

func (o *opener) Read(buffer []byte) (int, error) {
	count, err := o.decompressor.Read(buffer)
	if errors.Is(err, io.EOF) && o.plain.err != nil {
		err = o.plain.err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read %s: %w", o.name, o.source.blame(err))
	}
	return count, err
}

func (o *opener) Close() error {
	o.decompressor.Close()
	return nil
}
