"""The certificate of the report server: created once, kept in a Secret, published in ConfigMaps.

It is self-signed and its own trust bundle. The installation creates the objects empty, so that they
are removed with it. The operator has no right to create objects.
"""

import ssl
from base64 import b64decode, b64encode
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headway import private_files
from headway.backend.kubernetes.client.api import Api, Plain
from headway.backend.kubernetes.platform.pod_reports import Endpoint
from headway.core.model.units import Seconds
from headway.errors import BackendError

NAME = "headway-reports"
"""Name of the Secret, of the ConfigMaps and of the Service."""
PORT = 8443
CERTIFICATE, KEY, URL = "ca.crt", "tls.key", "url"
VALID = timedelta(days=3650)
RENEWED = timedelta(days=365)
"""Time before the end at which it is renewed. A script may read the bundle only once."""
ANSWER: Seconds = 5.0


class Pair(NamedTuple):
    certificate: str
    key: str


def url(namespace: str) -> str:
    return f"https://{_host(namespace)}:{PORT}"


def _host(namespace: str) -> str:
    return f"{NAME}.{namespace}.svc"


def create(namespace: str) -> Pair:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks of nodes differ
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(_host(namespace))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    plain = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Pair(made.public_bytes(serialization.Encoding.PEM).decode(), plain.decode())


def usable(pair: Pair, namespace: str) -> bool:
    try:
        made = x509.load_pem_x509_certificate(pair.certificate.encode())
        key = serialization.load_pem_private_key(pair.key.encode(), None)
        names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return False
    ours = made.public_key() == key.public_key()
    left = made.not_valid_after_utc - datetime.now(UTC)
    return ours and left > RENEWED and _host(namespace) in names.get_values_for_type(x509.DNSName)


def ensure(api: Api, namespace: str) -> Pair:
    """Return the certificate in the Secret; create a new one if there is none, or it ends soon."""
    path = f"/api/v1/namespaces/{namespace}/secrets/{NAME}"
    found = api.get(path, timeout=ANSWER)
    data = found.get("data") or {}
    with suppress(KeyError, ValueError):
        there = Pair(*(b64decode(data[k], validate=True).decode() for k in (CERTIFICATE, KEY)))
        if usable(there, namespace):
            return there
    made = create(namespace)
    encoded = (b64encode(text.encode()).decode() for text in made)
    body: Plain = {"data": dict(zip((CERTIFICATE, KEY), encoded, strict=True))}
    # The version makes the write fail if another leader was faster.
    body["metadata"] = {"resourceVersion": found["metadata"]["resourceVersion"]}
    api.patch(path, body)
    return made


def publish(api: Api, namespace: str, endpoint: Endpoint) -> None:
    """Publish the endpoint for node agents, and for runs without an operator."""
    path = f"/api/v1/namespaces/{namespace}/configmaps/{NAME}"
    api.patch(path, {"data": {CERTIFICATE: endpoint.certificate, URL: endpoint.url}})


def find(api: Api, namespace: str) -> Endpoint | None:
    """Return the endpoint that an operator publishes in a namespace; None: no operator is
    installed, or the object is not readable.
    """
    with suppress(BackendError):
        path = f"/api/v1/namespaces/{namespace}/configmaps/{NAME}"
        data = api.get(path, timeout=ANSWER).get("data") or {}
        return Endpoint(str(data.get(URL) or url(namespace)), str(data.get(CERTIFICATE) or ""))
    return None


def context(pair: Pair, folder: Path) -> ssl.SSLContext:
    """Return the TLS context of the server. `folder`: for a temporary file that OpenSSL reads."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    path = folder / "report-server.pem"
    try:
        with open(path, "w", encoding="ascii", opener=private_files.opener) as file:
            file.write(pair.key + pair.certificate)
        made.load_cert_chain(path)
    finally:
        path.unlink(missing_ok=True)
    return made
