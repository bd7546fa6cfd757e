package vault

import (
	"encoding/binary"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

// Describe returns the key that seals by a keyset as it is stored, and how many
// keys it has.
func (v *Vault) Describe(stored []byte) (primary uint32, keys int, err error) {
	handle, err := v.decrypt(stored)
	if err != nil {
		return 0, 0, err
	}
	info := handle.KeysetInfo()
	return info.GetPrimaryKeyId(), len(info.GetKeyInfo()), nil
}

// Renewed returns a stored keyset with a new key that seals, beside the old ones.
func (v *Vault) Renewed(stored []byte) ([]byte, error) {
	return v.changed(stored, func(m *keyset.Manager, _ *keyset.Handle) error {
		id, err := m.Add(aead.AES256GCMKeyTemplate())
		if err != nil {
			return err
		}
		return m.SetPrimary(id)
	})
}

// Retired returns a stored keyset without the keys that no longer encrypt.
func (v *Vault) Retired(stored []byte) ([]byte, error) {
	return v.changed(stored, func(m *keyset.Manager, handle *keyset.Handle) error {
		info := handle.KeysetInfo()
		for _, key := range info.GetKeyInfo() {
			if key.GetKeyId() == info.GetPrimaryKeyId() {
				continue
			}
			if err := m.Delete(key.GetKeyId()); err != nil {
				return err
			}
		}
		return nil
	})
}

func (v *Vault) changed(stored []byte, change func(*keyset.Manager, *keyset.Handle) error) ([]byte, error) {
	handle, err := v.decrypt(stored)
	if err != nil {
		return nil, err
	}
	m := keyset.NewManagerFromHandle(handle)
	if err := change(m, handle); err != nil {
		return nil, fmt.Errorf("change the keyset: %w", err)
	}
	if handle, err = m.Handle(); err != nil {
		return nil, fmt.Errorf("change the keyset: %w", err)
	}
	return v.root.Load().encrypt(handle)
}

// Rewrapped returns a stored keyset encrypted with another root, which alone opens
// it then. The keys in it stay as they are. It returns nil when the new root
// opens it already.
func Rewrapped(stored []byte, from, to Root) ([]byte, error) {
	if _, err := to.decrypt(stored); err == nil {
		return nil, nil
	}
	handle, err := from.decrypt(stored)
	if err != nil {
		return nil, err
	}
	return to.encrypt(handle)
}

// Prefix begins all that a key has sealed.
func Prefix(key uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{1}, key)
}
