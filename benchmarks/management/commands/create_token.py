"""`manage.py create_token USER`: an API token for an account, printed once as the last line.

Does NOT list or revoke tokens: the page *API tokens* of the account does.
"""

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchmarks.accounts.tokens import token_create
from benchmarks.services import Refused
from benchmarks.states import TokenScope


class Command(BaseCommand):
    help = "Create an API token for an account."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="name of the account")
        parser.add_argument("--name", default="command line", help="what the token is for")
        parser.add_argument("--scope", choices=TokenScope.values, default=TokenScope.SUBMIT)
        parser.add_argument("--days", type=int, help="days until it expires; never by default")
        parser.add_argument("--create", action="store_true", help="create the account if it does not exist")

    def handle(self, *args: Any, **options: Any) -> None:
        users = get_user_model().objects
        owner = users.filter(username=options["user"]).first()
        if owner is None and not options["create"]:
            raise CommandError(f"there is no account {options['user']}; create it with --create")
        owner = owner or users.create_user(options["user"])
        try:
            token = token_create(owner, options["name"], options["scope"], options["days"])
        except Refused as error:
            raise CommandError(str(error)) from error
        self.stdout.write(token.text)
