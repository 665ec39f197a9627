"""The quotas of a payer: the meters that limit submissions, and the ledger of charges. Import from here."""

from .charges import CHARGED_REASONS, ledger, paid_answers, refund, settle
from .metering import (
    IN_FLIGHT,
    IN_FLIGHT_RETRY_S,
    JUDGING,
    PUBLIC,
    WITHOUT_ACCOUNT,
    OverQuota,
    QuotaUse,
    forget_addresses,
    forget_places,
    keep_place,
    meters,
    meters_of,
    payer_of,
    take_place,
    take_public_place,
)
from .offers import NotEnoughTime, give_back, offer, spend

__all__ = [
    "CHARGED_REASONS",
    "IN_FLIGHT",
    "IN_FLIGHT_RETRY_S",
    "JUDGING",
    "PUBLIC",
    "WITHOUT_ACCOUNT",
    "NotEnoughTime",
    "OverQuota",
    "QuotaUse",
    "forget_addresses",
    "forget_places",
    "give_back",
    "keep_place",
    "ledger",
    "meters",
    "meters_of",
    "offer",
    "paid_answers",
    "payer_of",
    "refund",
    "settle",
    "spend",
    "take_place",
    "take_public_place",
]
