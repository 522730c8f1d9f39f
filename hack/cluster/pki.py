"""Certificates: one authority, and what it signs. All keys are made here and used nowhere else."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# A cluster of this kind lives for hours; a year is enough for a forgotten one.
_VALID_FOR = timedelta(days=365)


@dataclass(frozen=True)
class Signed:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write `name.crt` and `name.key`, the key for the owner alone, and return both paths."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.certificate)
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        return certificate, key


class Authority:
    """Signs the certificates of one cluster."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "trainshed-local")])
        draft = _draft(self._name, self._name, self._key.public_key())
        draft = draft.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self._certificate = draft.sign(self._key, hashes.SHA256())

    @property
    def own(self) -> Signed:
        """Return the authority's certificate and key, for who has to sign in its name."""
        return Signed(_certificate_pem(self._certificate), key_pem(self._key))

    def issue(
        self,
        name: str,
        *,
        groups: Sequence[str] = (),
        addresses: Sequence[str] = (),
        hosts: Sequence[str] = (),
    ) -> Signed:
        """Return a certificate for a client; with addresses or hosts also for a server there."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
        usage = [ExtendedKeyUsageOID.CLIENT_AUTH]
        alternatives: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
        alternatives += [x509.IPAddress(ip_address(address)) for address in addresses]
        draft = _draft(x509.Name(subject), self._name, key.public_key())
        if alternatives:
            usage.append(ExtendedKeyUsageOID.SERVER_AUTH)
            draft = draft.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        draft = draft.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        return Signed(_certificate_pem(draft.sign(self._key, hashes.SHA256())), key_pem(key))


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def new_signing_pair() -> tuple[bytes, bytes]:
    """Return a private and a public key as PEM: what service accounts' tokens are signed with."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return key_pem(key), public


def _draft(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # A clock that was set back a little must not make it invalid.
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _VALID_FOR)
    )


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
